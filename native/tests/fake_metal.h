// SPDX-License-Identifier: Apache-2.0
// The interface of the replacement for libtt_metal.so: a table of functions, so that the same workload can link
// against the library, open it at run time, or open two copies of it.
#pragma once

#include <cstdint>

namespace fake {

// Rows and columns of a compute grid, its banks and where L1 and DRAM begin. The workload's own account uses them too.
constexpr uint32_t kGridWidth = 8, kGridHeight = 8, kUnit = 32;
constexpr uint64_t kMapEnd = 35168, kL1Base = 105824, kDramBase = 32;
constexpr uint32_t kBankCount[5] = {12, 64, 0, 64, 12};
constexpr uint64_t kBankSize[5] = {1u << 30, 1360544, 0, 32768, 90112};
constexpr uint64_t kUniqueId = 0x1000;  // of chip 0

struct ProgramSpec {
    uint32_t cbs, dfbs, scratchpads, kernels;
    uint32_t x, y, x_end, y_end;  // cores it runs on
    uint32_t rows, columns;       // of the mesh, from 0, 0; what its workload adds it for
    bool global;                  // its first circular buffer lies in an L1 buffer
    bool clash;                   // laying it out throws
};

struct Api {
    void* (*open)(uint32_t rows, uint32_t columns, uint32_t first_chip);
    void (*close)(void* mesh);  // closes the mesh, and reports it twice, as tt-metal does
    uint32_t (*mesh_id)(void* mesh);
    void* (*chip)(void* mesh, uint32_t index);
    // On a mesh or on a chip; throws when there is no room.
    void* (*allocate)(void* device, uint32_t type, uint64_t size, uint32_t layout, uint32_t cores);
    uint64_t (*address)(void* buffer);
    void (*free)(void* buffer);
    void (*abandon)(void* buffer);  // deletes only the object: its memory is already free
    void (*free_all)(void* device);
    void (*clear_cache)(void* mesh);
    void* (*make_workload)();
    uint64_t (*add_program)(void* workload, const ProgramSpec* spec);  // returns Metal's program id
    void (*run)(void* mesh, void* workload);
    uint64_t (*binary_address)(void* workload);
    void (*destroy_workload)(void* workload);
    uint64_t (*buffer_count)(void* device);
    // In L1 of a chip, with a separate address on each core; cores are numbered row by row.
    void* (*allocate_per_core)(void* device, uint64_t size, uint32_t first_core, uint32_t cores);
};

}  // namespace fake

extern "C" const fake::Api* fake_api();
// The entry point that ttnn calls from outside libtt_metal.so, so that a hook has a caller in another object.
extern "C" void fake_run_from_outside(void* mesh, void* workload, void (*enqueue)(void*, void*, bool));
