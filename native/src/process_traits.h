// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout.h"

namespace ttmem {

// What is true of this process from beginning to end.
struct ProcessTraits {
    bool forked;  // it was copied from a process with an agent, with buffers that this agent has not seen
    bool hybrid;  // TT_METAL_ALLOCATOR_MODE_HYBRID: L1 pages are rounded one by one, chips have lists of their own
};

// In hybrid mode the list of a single chip repeats the buffers of the mesh that it is in. So the sums of its allocator
// are not those of its own buffers.
inline bool mirrors_its_mesh(const Mesh& mesh, const ProcessTraits& traits) {
    return traits.hybrid && mesh.mesh_id == kNoMeshId;
}

}  // namespace ttmem
