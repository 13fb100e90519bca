// SPDX-License-Identifier: Apache-2.0
// What the agent relies on in tt-metal's own objects, beside the functions of symbols.def: type codes, two slots of a
// table of virtual functions, and the statistics of an allocator.
#pragma once

#include <cstdint>

#include "metal.h"

namespace ttmem {

constexpr uint32_t kBufferTypes = 5;          // BufferType codes, which are the first codes of Kind
constexpr int kBankedTypes[] = {0, 1, 3, 4};  // those that have banks: all but system memory
constexpr uint32_t kTensix = 0;               // the first of the core types that kernels are for

// What an allocator reports about one type of memory, per bank.
struct Statistics {
    uint64_t total, allocated, free, largest_free;
    uint64_t room[28];  // tt-metal returns it by value; some versions return more
};

enum VirtualSlot { kArch = 2, kId = 3 };  // of IDevice's virtual functions; metal.cpp checks them

inline uint32_t virtual_call(void* device, VirtualSlot slot) {
    return reinterpret_cast<uint32_t (*)(void*)>((*static_cast<void***>(device))[slot])(device);
}

// Is this IDevice a MeshDevice? Otherwise it is a single chip.
inline bool is_mesh(const Metal& metal, void* device) {
    return *static_cast<void**>(device) == static_cast<char*>(metal.calls[kCall_mesh_vtable]) + 16;
}

}  // namespace ttmem
