// SPDX-License-Identifier: Apache-2.0
// The meters: what every chip holds now and held at most, by kind and pool. Each allocation that enters or leaves the
// live table changes them.
//
// For each gauge by itself, the chips that always counted the same share one meter. A meter is split when something is
// first counted on some of its chips and not on the others. So a buffer on a mesh costs as much as one on a chip, also
// if every chip has programs of its own.
//
// An event changes only `used` and `high` of a meter. All other figures (peaks, windows, phases) are brought up to date
// from `high` before one of them is reset: the meters are folded, and `high` is reset as well.
//
// Every method wants the store's lock held.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "layout.h"

namespace ttmem {

// What a workload reads of one kind or pool.
struct Figures {
    uint64_t used, reserved, peak, reserved_peak;
};

class Metering {
public:
    // Over memory that is all zero.
    void begin(Header* header, Meter* meters, Group* groups, Window* windows, OpenPhase* phases) noexcept;
    // Sets which chips are in a mesh, on which nothing may be live.
    void set_mesh(uint16_t index, const Mesh& described, const std::vector<uint16_t>& chips) noexcept;
    [[gnu::hot]] void add(const Record& allocation) noexcept;
    [[gnu::hot]] void remove(const Record& allocation) noexcept;

    // Fetches what the next buffer on a mesh will change. Without the lock: at worst in vain.
    [[gnu::hot]] void prefetch(uint16_t mesh) const noexcept {
        const uint16_t* meter = meshes_[mesh].meter;
        for (Gauge pool : {Gauge::kDramPool, Gauge::kL1BufferPool}) {
            const uint8_t gauge = static_cast<uint8_t>(pool);
            __builtin_prefetch(&meters_[gauge], 1);
            __builtin_prefetch(&meters_[__atomic_load_n(&meter[gauge], __ATOMIC_RELAXED) % kMeters], 1);
        }
    }

    // Resets every peak to what is held now.
    void reset_peaks() noexcept;
    // The window that is open ends before this record, and the next one begins with it.
    void next_window(uint64_t first) noexcept;
    // A phase is open from this record on, or not any more.
    void phase_began(const Record& record) noexcept;
    void phase_ended(uint64_t ident) noexcept;

    static constexpr uint32_t kAllChips = kChips;  // instead of a chip: all of them together
    bool knows(uint32_t chip) const noexcept { return chip == kAllChips || seen_.has(chip); }  // was it in any mesh
    Figures read(Gauge gauge, uint32_t chip) const noexcept;
    // Everything in L1: buffers and the parts of all programs.
    Figures read_l1(uint32_t chip) const noexcept;

private:
    static constexpr uint16_t kNotYet = 0, kSeveral = 0xffff;  // meter 0 has no chips of its own

    // A set of chips.
    struct Bits {
        uint64_t words[4];

        bool has(uint32_t bit) const { return words[bit / 64] >> bit % 64 & 1; }
        void add(uint32_t bit) { words[bit / 64] |= 1ull << bit % 64; }
        bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
    };
    // What is needed of a mesh for each allocation: one cache line.
    struct alignas(64) MeteredMesh {
        uint32_t banks[5];
        uint32_t chip_count;
        // By gauge: its meter beside that of all chips together; kSeveral: they are in several_; kNotYet: nothing was
        // counted there yet.
        uint16_t meter[kGauges];
    };
    static_assert(sizeof(MeteredMesh) == 64);
    struct Several {
        std::vector<uint16_t> meters[kGauges];
    };
    // While it exists, readers know that the figures of a meter do not belong together.
    class Changing;

    template <typename Change>
    void each(const Record& allocation, bool more, Change change) noexcept;
    template <typename Change>
    void each_of(uint16_t index, uint8_t gauge, uint64_t used, uint64_t reserved, Change change) noexcept;
    [[gnu::cold]] void change_rare(uint16_t index, uint8_t pool, uint8_t gauge, uint64_t used, uint64_t reserved,
                                   bool more) noexcept;
    static bool is_single(uint16_t meter) { return static_cast<uint16_t>(meter - 1) < kSeveral - 1; }
    [[gnu::cold]] void find_meters(uint16_t index, uint8_t gauge) noexcept;
    uint16_t new_meter(uint8_t gauge) noexcept;
    void give(uint16_t meter, uint8_t gauge, const Bits& chips) noexcept;
    void split(uint16_t from, const Bits& chips, uint8_t gauge) noexcept;
    void fold() noexcept;
    void fold(uint16_t meter) noexcept;
    [[gnu::cold]] void programs_change(uint16_t index, bool more) noexcept;
    void reach_l1(uint32_t chip) noexcept;
    const Meter& meter_of(Gauge gauge, uint32_t chip) const noexcept;

    // Arrays are in memory of their own, so that what every hook needs lies close together: these two come first.
    Meter* meters_ = nullptr;
    std::vector<MeteredMesh> meshes_ = std::vector<MeteredMesh>(kMeshes);  // by index, as the next two
    std::vector<Several> several_ = std::vector<Several>(kMeshes);
    std::vector<Bits> chips_ = std::vector<Bits>(kMeshes);
    Header* header_ = nullptr;
    Group* groups_ = nullptr;
    Window* windows_ = nullptr;
    OpenPhase* phases_ = nullptr;
    Bits seen_{};
    // By gauge and chip. kNotYet: the chip never counted anything of that gauge.
    std::vector<std::array<uint16_t, kChips>> meter_of_ = std::vector<std::array<uint16_t, kChips>>(kGauges);
    std::vector<uint16_t> buffers_in_l1_;  // meters of that pool
    uint64_t open_phases_ = 0;             // bit per row
    // The most that buffers and programs together were in L1, by chip and of all, since the peaks were last reset.
    // Their meters are split at different times, so this is no meter: it is brought up to date whenever programs
    // change.
    std::vector<uint64_t> l1_peaks_ = std::vector<uint64_t>(kChips + 1);
};

}  // namespace ttmem
