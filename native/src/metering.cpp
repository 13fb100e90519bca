// SPDX-License-Identifier: Apache-2.0
#include "metering.h"

namespace ttmem {

namespace {

constexpr uint8_t kKinds = 12, kBufferKinds = 5;
constexpr uint8_t kDramPool = static_cast<uint8_t>(Gauge::kDramPool), kL1Pool = static_cast<uint8_t>(Gauge::kL1Pool);

constexpr uint32_t bit(Kind kind) { return 1u << static_cast<uint8_t>(kind); }
constexpr uint32_t kInDram = bit(Kind::kDram) | bit(Kind::kTrace);
constexpr uint32_t kInL1 = bit(Kind::kL1) | bit(Kind::kL1Small) | bit(Kind::kCb) | bit(Kind::kDfb) |
                           bit(Kind::kScratchpad) | bit(Kind::kKernel) | bit(Kind::kFirmware);

constexpr uint8_t gauge_of(uint8_t kind) { return static_cast<uint8_t>(kind < 2 ? 2 * kind + 1 : kind + 2); }
static_assert(gauge_of(static_cast<uint8_t>(Kind::kDram)) == static_cast<uint8_t>(Gauge::kDram));
static_assert(gauge_of(static_cast<uint8_t>(Kind::kL1)) == static_cast<uint8_t>(Gauge::kL1));
static_assert(gauge_of(static_cast<uint8_t>(Kind::kHost)) == static_cast<uint8_t>(Gauge::kHost));
static_assert(gauge_of(static_cast<uint8_t>(Kind::kFirmware)) == static_cast<uint8_t>(Gauge::kFirmware));

uint64_t larger(uint64_t one, uint64_t other) { return one > other ? one : other; }

}  // namespace

void Metering::begin(Meters* meters, uint64_t& used) noexcept {
    meters_ = meters;
    used_ = &used;
    *used_ = 1;
}

// Chips that were in the same meshes so far share their meters, so a mesh costs an event as much as a chip. Where a
// new mesh holds some chips of a group and not others, the group is split; both halves go on from what was read.
void Metering::set_mesh(uint16_t index, const Mesh& described, const std::vector<uint16_t>& chips) noexcept {
    MeteredMesh& mesh = meshes_[index];
    mesh = {};
    Bits fresh{};
    for (uint16_t chip : chips) {
        if (chip < kChips && !fresh.has(chip)) {  // not so: there was no room to remember the chip
            fresh.add(chip);
            mesh.chip_count++;
        }
    }
    for (uint32_t i = 0; i < kBufferKinds; i++) {
        mesh.banks[i] = described.banks[i].banks;
    }
    for (uint32_t group = 1, end = static_cast<uint32_t>(*used_); group < end; group++) {
        uint64_t inside[4], any = 0, outside = 0;
        for (int i = 0; i < 4; i++) {
            inside[i] = meters_[group].chips[i] & fresh.words[i];
            any |= inside[i];
            outside |= meters_[group].chips[i] & ~fresh.words[i];
        }
        if (any == 0) {
            continue;
        }
        uint32_t found = group;
        if (outside != 0) {
            found = static_cast<uint32_t>((*used_)++);  // never too many: no two groups share a chip
            meters_[found] = meters_[group];
            for (MeteredMesh& other : meshes_) {
                if (other.groups.has(group - 1)) {
                    other.groups.add(found - 1);
                }
            }
        }
        for (int i = 0; i < 4; i++) {
            meters_[group].chips[i] &= ~inside[i];
            meters_[found].chips[i] = inside[i];
            fresh.words[i] &= ~inside[i];
        }
        mesh.groups.add(found - 1);
    }
    if ((fresh.words[0] | fresh.words[1] | fresh.words[2] | fresh.words[3]) != 0) {
        uint32_t made = static_cast<uint32_t>((*used_)++);
        for (int i = 0; i < 4; i++) {
            meters_[made].chips[i] = fresh.words[i];
        }
        mesh.groups.add(made - 1);
    }
}

template <typename Change>
void Metering::each(const Record& allocation, Change change) noexcept {
    uint8_t kind = static_cast<uint8_t>(allocation.kind);
    if (kind >= kKinds || allocation.mesh >= kMeshes) {
        return;  // a program's frame
    }
    const MeteredMesh& mesh = meshes_[allocation.mesh];
    uint64_t used = (allocation.flags & kShared) != 0 ? 0 : allocation.size, reserved = 0;
    if (kind < kBufferKinds) {
        bool everywhere = (allocation.flags & kPerCore) == 0;  // in lock step: the same in every bank
        reserved = uint64_t{allocation.per_bank} * (everywhere ? mesh.banks[kind] : allocation.core_count);
    }
    uint8_t gauge = gauge_of(kind), pool = (kInDram >> kind & 1) != 0 ? kDramPool : kL1Pool;
    bool pooled = ((kInDram | kInL1) >> kind & 1) != 0;
    auto change_both = [&](Meters& meters, uint64_t times) {
        change(meters.gauges[gauge], used * times, reserved * times);
        if (pooled) {
            change(meters.gauges[pool], used * times, reserved * times);
        }
    };
    change_both(meters_[0], mesh.chip_count);
    for (uint32_t word = 0; word < 4; word++) {
        for (uint64_t left = mesh.groups.words[word]; left != 0; left &= left - 1) {
            change_both(meters_[1 + 64 * word + static_cast<uint32_t>(__builtin_ctzll(left))], 1);
        }
    }
}

void Metering::add(const Record& allocation) noexcept {
    each(allocation, [](Meter& meter, uint64_t used, uint64_t reserved) {
        meter.used += used;
        meter.reserved += reserved;
        meter.peak = larger(meter.peak, meter.used);
        meter.reserved_peak = larger(meter.reserved_peak, meter.reserved);
    });
}

void Metering::remove(const Record& allocation) noexcept {
    each(allocation, [](Meter& meter, uint64_t used, uint64_t reserved) {
        meter.used -= used;
        meter.reserved -= reserved;
    });
}

void Metering::reset_peaks() noexcept {
    for (uint64_t i = 0; i < *used_; i++) {
        for (Meter& meter : meters_[i].gauges) {
            meter.peak = meter.used;
            meter.reserved_peak = meter.reserved;
        }
    }
}

const Meters* Metering::of_chip(uint32_t chip) const noexcept {
    for (uint64_t i = 1; i < *used_; i++) {
        if (meters_[i].chips[chip / 64] >> chip % 64 & 1) {
            return &meters_[i];
        }
    }
    return nullptr;
}

}  // namespace ttmem
