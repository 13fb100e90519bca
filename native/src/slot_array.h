// SPDX-License-Identifier: Apache-2.0
// One value for each slot of the live table, 0 at first. Only pages that were written to take memory.
#pragma once

#include <sys/mman.h>

#include <cstdint>

#include "layout.h"

namespace ttmem {

template <typename T>
class SlotArray {
public:
    // False if there is no memory. It is never given back: an agent lives as long as its process.
    bool create() noexcept {
        constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* memory = mmap(nullptr, sizeof(T) * kTableSlots, PROT_READ | PROT_WRITE, kFlags, -1, 0);
        values_ = memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
        return values_ != nullptr;
    }
    T& operator[](uint32_t slot) { return values_[slot]; }

private:
    T* values_ = nullptr;
};

}  // namespace ttmem
