// SPDX-License-Identifier: Apache-2.0
#include "metering.h"

namespace ttmem {

namespace {

constexpr uint8_t kKinds = 12, kBufferKinds = 5;
constexpr uint8_t kNoPool = 15;

constexpr uint8_t number(Gauge gauge) { return static_cast<uint8_t>(gauge); }

// Four bits for each kind: an immediate instead of a table in memory.
constexpr uint64_t packed(const uint8_t (&values)[kKinds]) {
    uint64_t bits = 0;
    for (int kind = 0; kind < kKinds; kind++) {
        bits |= uint64_t{values[kind]} << 4 * kind;
    }
    return bits;
}
constexpr uint8_t kDramPool = number(Gauge::kDramPool), kBufferPool = number(Gauge::kL1BufferPool),
                  kProgramPool = number(Gauge::kProgramPool);
constexpr uint64_t kPools = packed({kDramPool, kBufferPool, kNoPool, kBufferPool, kDramPool, kProgramPool, kProgramPool,
                                    kProgramPool, kProgramPool, kNoPool, kNoPool, kProgramPool});
constexpr uint64_t kGaugeOfKind = packed(
    {number(Gauge::kDram), number(Gauge::kL1), number(Gauge::kHost), number(Gauge::kL1Small), number(Gauge::kTrace),
     number(Gauge::kCb), number(Gauge::kDfb), number(Gauge::kScratchpad), number(Gauge::kKernel),
     number(Gauge::kFabricKernel), number(Gauge::kDispatchKernel), number(Gauge::kFirmware)});

// A pool and its busiest kind share a cache line if the pool's meter has an even number. So many of them at most skip
// one number: there must be room for every chip in every gauge.
constexpr uint32_t kEvenUntil = 200;
static_assert(kGauges * (kChips + 1) + kEvenUntil / 2 <= kMeters);

uint64_t larger(uint64_t one, uint64_t other) { return one > other ? one : other; }
void raise(uint64_t& value, uint64_t other) { value = larger(value, other); }

inline __attribute__((always_inline)) void add_to(Meter& meter, uint64_t used, uint64_t reserved) {
    meter.used += used;
    meter.reserved += reserved;
    raise(meter.high, meter.used);
    raise(meter.reserved_high, meter.reserved);
}

inline __attribute__((always_inline)) void take_from(Meter& meter, uint64_t used, uint64_t reserved) {
    meter.used -= used;
    meter.reserved -= reserved;
}

template <typename Visit>
void each_bit(const uint64_t (&words)[4], Visit visit) {
    for (uint32_t word = 0; word < 4; word++) {
        for (uint64_t left = words[word]; left != 0; left &= left - 1) {
            visit(64 * word + static_cast<uint32_t>(__builtin_ctzll(left)));
        }
    }
}

}  // namespace

class Metering::Changing {
public:
    explicit Changing(Header* header) : turn_(header->meters_turn) {
        __atomic_store_n(&turn_, turn_ + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
    ~Changing() { __atomic_store_n(&turn_, turn_ + 1, __ATOMIC_RELEASE); }
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;

private:
    uint64_t& turn_;
};

void Metering::begin(Header* header, Meter* meters, Group* groups, Window* windows, OpenPhase* phases) noexcept {
    header_ = header;
    meters_ = meters;
    groups_ = groups;
    windows_ = windows;
    phases_ = phases;
    header_->meters_used = kGauges;
    for (uint32_t gauge = 0; gauge < kGauges; gauge++) {
        groups_[gauge].gauge = gauge;
    }
    header_->window = 1;
    windows_[1].number = windows_[1].first = 1;
}

void Metering::set_mesh(uint16_t index, const Mesh& described, const std::vector<uint16_t>& chips) noexcept {
    MeteredMesh& mesh = meshes_[index];
    mesh.chip_count = 0;
    for (uint16_t& meter : mesh.meter) {
        __atomic_store_n(&meter, kNotYet, __ATOMIC_RELAXED);
    }
    several_[index] = {};
    Bits found{};
    for (uint16_t chip : chips) {
        if (chip < kChips && !found.has(chip)) {  // not so: there was no room to remember the chip
            found.add(chip);
            seen_.add(chip);
            mesh.chip_count++;
        }
    }
    chips_[index] = found;
    for (uint32_t i = 0; i < kBufferKinds; i++) {
        mesh.banks[i] = described.banks[i].banks;
    }
}

// -- which meters a mesh has ----------------------------------------------------------------------------------------

uint16_t Metering::new_meter(uint8_t gauge) noexcept {
    uint64_t made = header_->meters_used;  // never too many: no two meters of a gauge have the same chip
    bool pool = gauge == kDramPool || gauge == kBufferPool || gauge == kProgramPool;
    if (pool && made % 2 != 0 && made < kEvenUntil) {
        groups_[made].gauge = gauge;  // one without chips
        made++;
    }
    groups_[made].gauge = gauge;
    header_->meters_used = made + 1;
    if (gauge == kBufferPool) {
        buffers_in_l1_.push_back(static_cast<uint16_t>(made));
    }
    return static_cast<uint16_t>(made);
}

void Metering::give(uint16_t meter, uint8_t gauge, const Bits& chips) noexcept {
    for (int i = 0; i < 4; i++) {
        groups_[meter].chips[i] = chips.words[i];
    }
    each_bit(chips.words, [&](uint32_t chip) { meter_of_[gauge][chip] = meter; });
}

// These chips of a meter get one of their own, which goes on from what the old one shows. So do the rows that are kept
// of it: the chips had the same until now.
void Metering::split(uint16_t from, const Bits& chips, uint8_t gauge) noexcept {
    uint16_t made = new_meter(gauge);
    meters_[made] = meters_[from];
    Bits rest;
    for (int i = 0; i < 4; i++) {
        rest.words[i] = groups_[from].chips[i] & ~chips.words[i];
    }
    groups_[made] = groups_[from];
    give(made, gauge, chips);
    give(from, gauge, rest);
    for (uint32_t row = 0; row < kWindows; row++) {
        windows_[row].highs[made] = windows_[row].highs[from];
    }
    for (uint64_t left = open_phases_; left != 0; left &= left - 1) {
        OpenPhase& phase = phases_[__builtin_ctzll(left)];
        phase.figures[made] = phase.figures[from];
    }
    for (uint32_t index = 0; index < kMeshes; index++) {
        uint16_t& only = meshes_[index].meter[gauge];
        std::vector<uint16_t>& several = several_[index].meters[gauge];
        if (only == from) {
            __atomic_store_n(&only, kSeveral, __ATOMIC_RELAXED);
            several = {from, made};
        } else if (only == kSeveral) {
            for (size_t i = 0, count = several.size(); i < count; i++) {
                if (several[i] == from) {
                    several.push_back(made);
                }
            }
        }
    }
}

// Something of a gauge is counted on a mesh for the first time: from now on its chips share no meter with others.
void Metering::find_meters(uint16_t index, uint8_t gauge) noexcept {
    Changing changing(header_);
    Bits fresh{};
    std::vector<uint16_t> found;
    Bits left = chips_[index];
    each_bit(chips_[index].words, [&](uint32_t chip) {
        uint16_t meter = meter_of_[gauge][chip];
        if (meter == kNotYet) {
            fresh.add(chip);
        } else if (left.has(chip)) {
            Bits inside;
            uint64_t outside = 0;
            for (int i = 0; i < 4; i++) {
                inside.words[i] = groups_[meter].chips[i] & left.words[i];
                outside |= groups_[meter].chips[i] & ~left.words[i];
                left.words[i] &= ~inside.words[i];
            }
            if (outside != 0) {
                split(meter, inside, gauge);
                meter = meter_of_[gauge][chip];
            }
            found.push_back(meter);
        }
    });
    if (!fresh.empty()) {
        uint16_t made = new_meter(gauge);
        give(made, gauge, fresh);
        found.push_back(made);
    }
    __atomic_store_n(&meshes_[index].meter[gauge], found.size() == 1 ? found[0] : kSeveral, __ATOMIC_RELAXED);
    several_[index].meters[gauge] = found.size() == 1 ? std::vector<uint16_t>() : std::move(found);
}

// -- changes --------------------------------------------------------------------------------------------------------

// Calls `change(meter, used, reserved)` for every meter of a gauge that an allocation shows on.
template <typename Change>
void Metering::each_of(uint16_t index, uint8_t gauge, uint64_t used, uint64_t reserved, Change change) noexcept {
    MeteredMesh& mesh = meshes_[index];
    change(meters_[gauge], used * mesh.chip_count, reserved * mesh.chip_count);
    if (mesh.meter[gauge] == kNotYet) {
        find_meters(index, gauge);
    }
    if (mesh.meter[gauge] != kSeveral) {
        change(meters_[mesh.meter[gauge]], used, reserved);
        return;
    }
    for (uint16_t meter : several_[index].meters[gauge]) {
        change(meters_[meter], used, reserved);
    }
}

template <typename Change>
inline __attribute__((always_inline)) void Metering::each(const Record& allocation, bool more, Change change) noexcept {
    const uint8_t kind = static_cast<uint8_t>(allocation.kind);
    if (__builtin_expect(kind >= kKinds || allocation.mesh >= kMeshes, 0)) {
        return;  // a program's frame
    }
    const MeteredMesh& mesh = meshes_[allocation.mesh];
    uint64_t used = (allocation.flags & kShared) != 0 ? 0 : allocation.size, reserved = 0;
    if (__builtin_expect(kind < kBufferKinds, 1)) {
        bool everywhere = (allocation.flags & kPerCore) == 0;  // in lock step: the same in every bank
        reserved = uint64_t{allocation.per_bank} * (everywhere ? mesh.banks[kind] : allocation.core_count);
    }
    const uint8_t pool = kPools >> 4 * kind & 15, gauge = kGaugeOfKind >> 4 * kind & 15;
    if (__builtin_expect(
            kind < kBufferKinds && pool != kNoPool && is_single(mesh.meter[pool]) && is_single(mesh.meter[gauge]), 1)) {
        const uint64_t used_of_all = used * mesh.chip_count, reserved_of_all = reserved * mesh.chip_count;
        change(meters_[pool], used_of_all, reserved_of_all);
        change(meters_[gauge], used_of_all, reserved_of_all);
        change(meters_[mesh.meter[pool]], used, reserved);
        change(meters_[mesh.meter[gauge]], used, reserved);
        return;
    }
    if ((used | reserved) == 0) {
        return;  // it counts nothing, so it splits nothing
    }
    change_rare(allocation.mesh, pool, gauge, used, reserved, more);
}

void Metering::change_rare(uint16_t index, uint8_t pool, uint8_t gauge, uint64_t used, uint64_t reserved,
                           bool more) noexcept {
    const auto change = [&](uint8_t which) {
        more ? each_of(index, which, used, reserved, add_to) : each_of(index, which, used, reserved, take_from);
    };
    if (pool == kProgramPool) {
        programs_change(index, more);
    }
    if (pool != kNoPool) {
        change(pool);
    }
    change(gauge);
}

void Metering::add(const Record& allocation) noexcept { each(allocation, true, add_to); }

void Metering::remove(const Record& allocation) noexcept { each(allocation, false, take_from); }

// -- all figures that are kept of a meter ---------------------------------------------------------------------------

void Metering::fold(uint16_t index) noexcept {
    Meter& meter = meters_[index];
    Group& group = groups_[index];
    raise(group.peak, meter.high);
    raise(group.reserved_peak, meter.reserved_high);
    raise(group.ever, meter.high);
    raise(group.reserved_ever, meter.reserved_high);
    High& high = windows_[header_->window % kWindows].highs[index];
    raise(high.used, meter.high);
    raise(high.reserved, meter.reserved_high);
    for (uint64_t left = open_phases_; left != 0; left &= left - 1) {
        raise(phases_[__builtin_ctzll(left)].figures[index].peak, meter.high);
    }
    meter.high = meter.used;
    meter.reserved_high = meter.reserved;
}

void Metering::fold() noexcept {
    each_bit(seen_.words, [&](uint32_t chip) { reach_l1(chip); });
    reach_l1(kAllChips);
    for (uint64_t meter = 0; meter < header_->meters_used; meter++) {
        fold(static_cast<uint16_t>(meter));
    }
}

void Metering::reset_peaks() noexcept {
    Changing changing(header_);
    fold();
    for (uint64_t i = 0; i < header_->meters_used; i++) {
        groups_[i].peak = meters_[i].used;
        groups_[i].reserved_peak = meters_[i].reserved;
    }
    for (uint64_t& peak : l1_peaks_) {
        peak = 0;  // reading adds what is there now
    }
}

void Metering::next_window(uint64_t first) noexcept {
    Changing changing(header_);
    fold();
    uint64_t number = header_->window;
    windows_[number % kWindows].last = first - 1;
    Window& next = windows_[++number % kWindows];
    __atomic_store_n(&next.number, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (uint64_t i = 0; i < header_->meters_used; i++) {
        next.highs[i] = {meters_[i].used, meters_[i].reserved};
    }
    next.first = first;
    next.last = 0;
    __atomic_store_n(&next.number, number, __ATOMIC_RELEASE);
    header_->window = number;
}

void Metering::phase_began(const Record& record) noexcept {
    Changing changing(header_);
    fold();
    header_->phases_began++;
    if (~open_phases_ == 0) {
        header_->phases_full++;
        return;
    }
    uint32_t row = static_cast<uint32_t>(__builtin_ctzll(~open_phases_));
    open_phases_ |= 1ull << row;
    OpenPhase& phase = phases_[row];
    phase.ident = record.address;
    phase.parent = record.size;
    phase.time = record.time;
    phase.name = record.name;
    for (uint64_t i = 0; i < header_->meters_used; i++) {
        phase.figures[i] = {meters_[i].used, meters_[i].used};
    }
    __atomic_store_n(&phase.began, record.sequence, __ATOMIC_RELEASE);
}

void Metering::phase_ended(uint64_t ident) noexcept {
    Changing changing(header_);
    for (uint64_t left = open_phases_; left != 0; left &= left - 1) {
        uint32_t row = static_cast<uint32_t>(__builtin_ctzll(left));
        if (phases_[row].ident == ident) {
            __atomic_store_n(&phases_[row].began, 0, __ATOMIC_RELEASE);
            open_phases_ &= ~(1ull << row);
        }
    }
}
static_assert(kOpenPhases == 64, "one bit each");

// -- buffers and programs together ----------------------------------------------------------------------------------

// Buffers and programs are in L1 together, but their meters are not of the same chips, and a high of one tells nothing
// of the other at that moment. Programs change rarely: as long as they do not, the highest sum is that of the buffers'
// high. So that is written down before programs change: if they shrink, for their chips; if they grow, for all chips
// whose buffers were higher than they are now, because that high is not to be added to the programs to come.
void Metering::programs_change(uint16_t index, bool more) noexcept {
    if (!more) {
        each_bit(chips_[index].words, [&](uint32_t chip) { reach_l1(chip); });
        reach_l1(kAllChips);
        return;
    }
    Changing changing(header_);
    if (meters_[kBufferPool].high > meters_[kBufferPool].used) {
        reach_l1(kAllChips);
        fold(kBufferPool);
    }
    for (uint16_t meter : buffers_in_l1_) {
        if (meters_[meter].high > meters_[meter].used) {
            each_bit(groups_[meter].chips, [&](uint32_t chip) { reach_l1(chip); });
            fold(meter);
        }
    }
}

void Metering::reach_l1(uint32_t chip) noexcept {
    raise(l1_peaks_[chip], meter_of(Gauge::kL1BufferPool, chip).high + meter_of(Gauge::kProgramPool, chip).used);
}

// -- reading --------------------------------------------------------------------------------------------------------

const Meter& Metering::meter_of(Gauge gauge, uint32_t chip) const noexcept {
    static constexpr Meter kNothing{};
    if (chip == kAllChips) {
        return meters_[number(gauge)];
    }
    uint16_t meter = meter_of_[number(gauge)][chip];
    return meter == kNotYet ? kNothing : meters_[meter];
}

Figures Metering::read(Gauge gauge, uint32_t chip) const noexcept {
    uint16_t found = chip == kAllChips ? number(gauge) : meter_of_[number(gauge)][chip];
    if (chip != kAllChips && found == kNotYet) {
        return {};
    }
    const Meter& meter = meters_[found];
    return {meter.used, meter.reserved, larger(groups_[found].peak, meter.high),
            larger(groups_[found].reserved_peak, meter.reserved_high)};
}

Figures Metering::read_l1(uint32_t chip) const noexcept {
    const Figures buffers = read(Gauge::kL1BufferPool, chip);
    const uint64_t programs = meter_of(Gauge::kProgramPool, chip).used;
    uint64_t now = meter_of(Gauge::kL1BufferPool, chip).high + programs;
    return {buffers.used + programs, buffers.reserved, larger(l1_peaks_[chip], now), buffers.reserved_peak};
}

}  // namespace ttmem
