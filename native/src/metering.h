// SPDX-License-Identifier: Apache-2.0
// The meters: what every chip holds now and held at most. Each allocation that enters or leaves the live table changes
// them.
// Every method wants the store's lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "layout.h"

namespace ttmem {

class Metering {
public:
    // Over memory that is all zero.
    void begin(Meters* meters, uint64_t& used) noexcept;
    // Sets which chips are in a mesh, on which nothing may be live.
    void set_mesh(uint16_t index, const Mesh& described, const std::vector<uint16_t>& chips) noexcept;
    [[gnu::hot]] void add(const Record& allocation) noexcept;
    [[gnu::hot]] void remove(const Record& allocation) noexcept;
    // Every peak starts anew from what is held.
    void reset_peaks() noexcept;

    const Meters& all() const { return meters_[0]; }
    const Meters* of_chip(uint32_t chip) const noexcept;  // nullptr for a chip that is in no mesh

private:
    // A set of chips or of groups of them.
    struct Bits {
        uint64_t words[4];

        bool has(uint32_t bit) const { return words[bit / 64] >> bit % 64 & 1; }
        void add(uint32_t bit) { words[bit / 64] |= 1ull << bit % 64; }
    };
    // What is needed of a mesh for each allocation.
    struct alignas(64) MeteredMesh {
        Bits groups;  // bit 0 is meters_[1]
        uint32_t banks[5];
        uint32_t chip_count;
    };

    // Calls `change(gauge, used, reserved)` for every gauge that an allocation shows on.
    template <typename Change>
    void each(const Record& allocation, Change change) noexcept;

    Meters* meters_ = nullptr;
    uint64_t* used_ = nullptr;
    // By index. In memory of its own, so that what every hook needs lies close together.
    std::vector<MeteredMesh> meshes_ = std::vector<MeteredMesh>(kMeshes);
};

}  // namespace ttmem
