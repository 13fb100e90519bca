// SPDX-License-Identifier: Apache-2.0
// Asks tt-metal what a program consists of: kernels and scratchpads. Circular and dataflow buffers are reported by
// hooks while they are laid out.
#pragma once

#include <cstdint>
#include <vector>

#include "metal.h"
#include "store.h"

namespace ttmem {

// A circular or dataflow buffer, scratchpad or kernel of a program.
struct ProgramPart {
    Kind kind;
    uint8_t flags;
    uint64_t address;
    uint32_t per_core;
    Cores cores;
    uint32_t name;  // blob, 0 for none
};

struct ProgramKernels {
    std::vector<ProgramPart> parts;
    Cores cores;  // Tensix cores that any of them is on
};

// Both are to be called without the store's lock, which is taken to write names into the store.

// `grid` is the compute grid of the mesh: kernels outside it are those of the dispatcher.
ProgramKernels kernels_of(const Metal& metal, Store& store, void* program, void* device, const Cores& grid);
std::vector<ProgramPart> scratchpads_of(const Metal& metal, Store& store, void* program);

}  // namespace ttmem
