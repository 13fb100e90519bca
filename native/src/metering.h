// SPDX-License-Identifier: Apache-2.0
// The meters: what every chip holds now and held at most, kept up with each thing that enters or leaves the live table.
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
    // Says which chips are in a mesh. Nothing may be live there.
    void settle(uint16_t mesh, const Mesh& geometry, const std::vector<uint16_t>& chips) noexcept;
    [[gnu::hot]] void add(const Record& thing) noexcept;
    [[gnu::hot]] void remove(const Record& thing) noexcept;
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
    // What is needed of a mesh for each thing.
    struct alignas(64) Spot {
        Bits groups;  // bit 0 is meters_[1]
        uint32_t banks[5];
        uint32_t chip_count;
    };

    // Calls `change(gauge, used, reserved)` for every gauge that a thing shows on.
    template <typename Change>
    void each(const Record& thing, Change change) noexcept;

    Meters* meters_ = nullptr;
    uint64_t* used_ = nullptr;
    std::vector<Spot> spots_ = std::vector<Spot>(kMeshes);  // elsewhere: what every hook needs lies close together
};

}  // namespace ttmem
