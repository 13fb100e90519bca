// SPDX-License-Identifier: Apache-2.0
// Asks tt-metal what a mesh consists of: chips, banks, compute grid.
#pragma once

#include "meshes.h"
#include "metal.h"

namespace ttmem {

// Fills in all but the earlier buffers. `allocator` is looked up if it is nullptr. False if there is nothing to follow.
// To be called without the store's lock, which is taken to write new chips into the store.
bool describe(const Metal& metal, Store& store, void* allocator, void* device, NewMesh& mesh);

}  // namespace ttmem
