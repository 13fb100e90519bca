// SPDX-License-Identifier: Apache-2.0
// ttmem::Metering: every chip's meters beside a model that keeps each chip by itself and knows nothing of groups.
#include "metering.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "store.h"

using ttmem::Event;
using ttmem::Figures;
using ttmem::Gauge;
using ttmem::Kind;
using ttmem::Mesh;
using ttmem::Metering;
using ttmem::Record;
using ttmem::Store;

namespace {

constexpr uint32_t kBanks[5] = {12, 64, 0, 64, 12};
constexpr uint32_t kModelChips = 20, kAll = kModelChips;  // the last of the model's chips is the sum of the others

struct Made : Store {
    Made() { CHECK(create(static_cast<uint32_t>(getpid()))); }
    ~Made() { destroy(); }

    void set_mesh(uint16_t mesh, const std::vector<uint16_t>& chips) {
        Mesh described{};
        for (int i = 0; i < 5; i++) {
            described.banks[i].banks = kBanks[i];
        }
        metering.set_mesh(mesh, described, chips);
    }
    uint32_t put(uint16_t mesh, Kind kind, uint64_t size, uint32_t per_bank, uint16_t cores = 0, uint8_t flags = 0) {
        return allocate([&](Record& r) {
            r.mesh = mesh;
            r.kind = kind;
            r.size = size;
            r.per_bank = per_bank;
            r.core_count = cores;
            r.flags = flags;
        });
    }
    template <typename T>
    const T* at(uint32_t offset) const {
        return reinterpret_cast<const T*>(reinterpret_cast<const char*>(header()) + offset);
    }
    Figures all(Gauge gauge) const { return metering.read(gauge, Metering::kAllChips); }
    Figures chip(uint32_t chip, Gauge gauge) const {
        CHECK(metering.knows(chip));
        return metering.read(gauge, chip);
    }
    // How many meters there are of a gauge, beside that of all chips together.
    uint32_t groups(Gauge gauge) const {
        uint32_t count = 0;
        for (uint64_t i = ttmem::kGauges; i < header()->meters_used; i++) {
            const ttmem::Group& group = at<ttmem::Group>(header()->groups_at)[i];
            bool chips = (group.chips[0] | group.chips[1] | group.chips[2] | group.chips[3]) != 0;
            count += chips && group.gauge == static_cast<uint32_t>(gauge);
        }
        return count;
    }
    // The number of a chip's meter as readers find it; that of all chips together for kAll; -1 if there is none.
    int64_t meter(uint32_t chip, uint32_t gauge) const {
        if (chip == kAll) {
            return gauge;
        }
        for (uint64_t i = ttmem::kGauges; i < header()->meters_used; i++) {
            const ttmem::Group& group = at<ttmem::Group>(header()->groups_at)[i];
            if (group.gauge == gauge && (group.chips[chip / 64] >> chip % 64 & 1) != 0) {
                return static_cast<int64_t>(i);
            }
        }
        return -1;
    }
    const ttmem::Meter& raw(int64_t meter) const { return at<ttmem::Meter>(header()->meters_at)[meter]; }
    const ttmem::Window& window(uint64_t number) const {
        return at<ttmem::Window>(header()->windows_at)[number % ttmem::kWindows];
    }
    const ttmem::OpenPhase* phase(uint64_t ident) const {
        for (uint32_t row = 0; row < header()->phases; row++) {
            const ttmem::OpenPhase& found = at<ttmem::OpenPhase>(header()->phases_at)[row];
            if (found.began != 0 && found.ident == ident) {
                return &found;
            }
        }
        return nullptr;
    }
    void begin_phase(uint64_t ident) {
        metering.phase_began(append(Event::kPhaseBegan, [&](Record& r) { r.address = ident; }));
    }
    void end_phase(uint64_t ident) {
        append(Event::kPhaseEnded, [&](Record& r) { r.address = ident; });
        metering.phase_ended(ident);
    }
    uint64_t ever(uint32_t chip, Gauge gauge) const {
        int64_t found = meter(chip, static_cast<uint32_t>(gauge));
        return std::max(at<ttmem::Group>(header()->groups_at)[found].ever, raw(found).high);
    }
};

bool same(const Figures& meter, uint64_t used, uint64_t reserved, uint64_t peak, uint64_t reserved_peak) {
    return meter.used == used && meter.reserved == reserved && meter.peak == peak &&
           meter.reserved_peak == reserved_peak;
}

void a_buffer_on_a_mesh() {
    Made store;
    CHECK(!store.metering.knows(0) && store.header()->meters_used == ttmem::kGauges);
    store.set_mesh(0, {0, 1, 2});
    uint32_t slot = store.put(0, Kind::kDram, 1000, 128);
    CHECK(store.groups(Gauge::kDram) == 1 && store.groups(Gauge::kDramPool) == 1);  // as much as one chip costs
    int64_t pool = store.meter(1, 0), kind = store.meter(1, 1);
    CHECK(pool % 2 == 0 && kind == pool + 1);  // one cache line
    for (Gauge gauge : {Gauge::kDram, Gauge::kDramPool}) {
        CHECK(same(store.chip(2, gauge), 1000, 1536, 1000, 1536));
        CHECK(same(store.all(gauge), 3000, 4608, 3000, 4608));
    }
    CHECK(same(store.chip(2, Gauge::kL1BufferPool), 0, 0, 0, 0));
    store.free(slot, 0);
    CHECK(same(store.chip(0, Gauge::kDram), 0, 0, 1000, 1536));
    store.metering.reset_peaks();
    CHECK(same(store.chip(0, Gauge::kDram), 0, 0, 0, 0) && same(store.all(Gauge::kDramPool), 0, 0, 0, 0));
}

void which_pool_a_kind_is_in() {
    const std::map<Kind, std::pair<Gauge, int>> gauges = {
        {Kind::kDram, {Gauge::kDram, 0}},
        {Kind::kL1, {Gauge::kL1, 2}},
        {Kind::kHost, {Gauge::kHost, -1}},
        {Kind::kL1Small, {Gauge::kL1Small, 2}},
        {Kind::kTrace, {Gauge::kTrace, 0}},
        {Kind::kCb, {Gauge::kCb, 4}},
        {Kind::kDfb, {Gauge::kDfb, 4}},
        {Kind::kScratchpad, {Gauge::kScratchpad, 4}},
        {Kind::kKernel, {Gauge::kKernel, 4}},
        {Kind::kFabricKernel, {Gauge::kFabricKernel, -1}},
        {Kind::kDispatchKernel, {Gauge::kDispatchKernel, -1}},
        {Kind::kFirmware, {Gauge::kFirmware, 4}},
    };
    for (const auto& [kind, where] : gauges) {
        Made store;
        store.set_mesh(0, {0});
        store.put(0, kind, 77, 0, 1);
        for (uint32_t i = 0; i < ttmem::kGauges; i++) {
            bool here = i == static_cast<uint32_t>(where.first) || static_cast<int>(i) == where.second;
            CHECK(store.chip(0, static_cast<Gauge>(i)).used == (here ? 77u : 0u));
        }
        CHECK(store.metering.read_l1(0).used == (where.second == 2 || where.second == 4 ? 77u : 0u));
    }
}

void what_counts_and_what_does_not() {
    Made store;
    store.set_mesh(0, {0});
    store.set_mesh(1, {1});
    store.put(0, Kind::kCb, 500, 100, 5, ttmem::kShared);
    CHECK(same(store.chip(0, Gauge::kCb), 0, 0, 0, 0));
    store.put(0, Kind::kCb, 500, 100, 5);
    CHECK(same(store.chip(0, Gauge::kProgramPool), 500, 0, 500, 0));  // outside the allocator's banks
    store.put(0, Kind::kL1, 300, 100, 3);  // in lock step a shard takes its address in every bank
    CHECK(same(store.chip(0, Gauge::kL1), 300, 6400, 300, 6400));
    store.put(1, Kind::kL1, 300, 100, 3, ttmem::kPerCore);
    CHECK(same(store.chip(1, Gauge::kL1), 300, 300, 300, 300));
    uint32_t frame = store.take_slot();
    store.keep(frame, store.append(Event::kProgram, [&](Record& r) {
        r.kind = Kind::kProgramFrame;
        r.size = 4096;
        r.slot = frame;
    }));
    store.forget(frame);
    CHECK(store.metering.read_l1(Metering::kAllChips).used == 1100);
    store.set_mesh(2, {ttmem::kChips, 0xffff});  // chips that nobody had room for
    store.put(2, Kind::kL1, 300, 100);
    CHECK(store.metering.read_l1(Metering::kAllChips).used == 1100);
}

// What counts nothing splits nothing, and neither does opening a mesh or what is of another kind.
void what_splits_a_meter() {
    Made store;
    std::vector<uint16_t> chips;
    for (uint16_t chip = 0; chip < 32; chip++) {
        chips.push_back(chip);
    }
    store.set_mesh(0, chips);
    store.put(0, Kind::kDram, 1, 1);
    store.put(0, Kind::kL1, 1, 1);
    for (uint16_t chip = 0; chip < 32; chip++) {  // a fabric program and one of all_gather on each
        uint16_t mesh = static_cast<uint16_t>(chip + 1);
        store.set_mesh(mesh, {chip});
        store.put(mesh, Kind::kFabricKernel, 10u + chip, 1, 1);
        store.put(mesh, Kind::kCb, 64, 64, 1, ttmem::kShared);
    }
    CHECK(store.groups(Gauge::kFabricKernel) == 32 && store.groups(Gauge::kCb) == 0);
    for (uint16_t mesh = 1; mesh <= 32; mesh++) {
        store.put(mesh, Kind::kCb, 64, 64, 1);
    }
    CHECK(store.groups(Gauge::kCb) == 32 && store.groups(Gauge::kProgramPool) == 32);
    CHECK(store.groups(Gauge::kDram) == 1 && store.groups(Gauge::kDramPool) == 1);
    CHECK(store.groups(Gauge::kL1) == 1 && store.groups(Gauge::kL1BufferPool) == 1);
    CHECK(store.chip(7, Gauge::kFabricKernel).used == 17 && store.all(Gauge::kCb).used == 32 * 64);
}

// As a program that turns out to be for some chips of a mesh: its parts move, without ever being counted twice.
void an_allocation_that_moves() {
    Made store;
    store.set_mesh(0, {0, 1});
    uint32_t slot = store.put(0, Kind::kCb, 64, 64, 1);
    store.set_mesh(1, {1});
    CHECK(store.groups(Gauge::kCb) == 1 && store.chip(0, Gauge::kCb).used == 64);
    Record allocation = store.table()[slot];
    store.clear(slot);
    store.keep(slot, store.append(Event::kAllocated, [&](Record& r) {
        r = allocation;
        r.mesh = 1;
    }));
    CHECK(same(store.chip(0, Gauge::kCb), 0, 0, 64, 0) && same(store.chip(1, Gauge::kCb), 64, 0, 64, 0));
    CHECK(same(store.all(Gauge::kProgramPool), 64, 0, 128, 0) && store.groups(Gauge::kCb) == 2);
    store.forget(slot);
    CHECK(same(store.chip(1, Gauge::kProgramPool), 0, 0, 64, 0) && store.all(Gauge::kCb).used == 0);
}

// Everything of each chip by itself, compared after every change.
struct Model {
    struct Cell {
        uint64_t used, reserved, peak, reserved_peak, ever, reserved_ever, window, reserved_window;
        std::map<uint64_t, std::pair<uint64_t, uint64_t>> phases;  // begin and peak
    };
    std::array<std::array<Cell, ttmem::kGauges>, kModelChips + 1> cells{};
    std::array<uint64_t, kModelChips + 1> l1_peaks{};
    std::vector<std::array<std::array<std::pair<uint64_t, uint64_t>, ttmem::kGauges>, kModelChips + 1>> windows;

    static std::vector<Gauge> gauges(Kind kind) {
        switch (kind) {
            case Kind::kDram: return {Gauge::kDram, Gauge::kDramPool};
            case Kind::kTrace: return {Gauge::kTrace, Gauge::kDramPool};
            case Kind::kL1: return {Gauge::kL1, Gauge::kL1BufferPool};
            case Kind::kL1Small: return {Gauge::kL1Small, Gauge::kL1BufferPool};
            case Kind::kCb: return {Gauge::kCb, Gauge::kProgramPool};
            case Kind::kKernel: return {Gauge::kKernel, Gauge::kProgramPool};
            default: return {Gauge::kDispatchKernel};
        }
    }
    void change(const std::vector<uint16_t>& chips, const Record& allocation, int64_t sign) {
        uint64_t reserved =
            allocation.kind < Kind::kCb ? uint64_t{allocation.per_bank} * kBanks[static_cast<int>(allocation.kind)] : 0;
        for (Gauge gauge : gauges(allocation.kind)) {
            for (uint16_t chip : chips) {
                for (uint32_t which : {uint32_t{chip}, kAll}) {
                    Cell& cell = cells[which][static_cast<size_t>(gauge)];
                    cell.used += allocation.size * static_cast<uint64_t>(sign);
                    cell.reserved += reserved * static_cast<uint64_t>(sign);
                }
            }
        }
        reached();  // only now: the chips of a mesh change together
    }
    static void raise(uint64_t& value, uint64_t other) { value = std::max(value, other); }
    void reached() {
        for (uint32_t chip = 0; chip <= kAll; chip++) {
            for (Cell& cell : cells[chip]) {
                raise(cell.peak, cell.used);
                raise(cell.reserved_peak, cell.reserved);
                raise(cell.ever, cell.used);
                raise(cell.reserved_ever, cell.reserved);
                raise(cell.window, cell.used);
                raise(cell.reserved_window, cell.reserved);
                for (auto& [ident, figures] : cell.phases) {
                    raise(figures.second, cell.used);
                }
            }
            raise(l1_peaks[chip], l1(chip));
        }
    }
    uint64_t l1(uint32_t chip) const {
        return cells[chip][static_cast<size_t>(Gauge::kL1BufferPool)].used +
               cells[chip][static_cast<size_t>(Gauge::kProgramPool)].used;
    }
    template <typename Change>
    void each(Change change) {
        for (auto& gauges : cells) {
            for (Cell& cell : gauges) {
                change(cell);
            }
        }
    }
    void reset() {
        each([](Cell& cell) {
            cell.peak = cell.used;
            cell.reserved_peak = cell.reserved;
        });
        for (uint32_t chip = 0; chip <= kAll; chip++) {
            l1_peaks[chip] = l1(chip);
        }
    }
    void begin_phase(uint64_t ident) {
        each([&](Cell& cell) { cell.phases[ident] = {cell.used, cell.used}; });
    }
    void end_phase(uint64_t ident) {
        each([&](Cell& cell) { cell.phases.erase(ident); });
    }
    void next_window() {
        windows.emplace_back();
        for (uint32_t chip = 0; chip <= kAll; chip++) {
            for (uint32_t gauge = 0; gauge < ttmem::kGauges; gauge++) {
                Cell& cell = cells[chip][gauge];
                windows.back()[chip][gauge] = {cell.window, cell.reserved_window};
                cell.window = cell.used;
                cell.reserved_window = cell.reserved;
            }
        }
    }
};

void check_chip(const Made& store, const Model& model, uint32_t chip, bool thorough) {
    uint32_t number = chip == kAll ? Metering::kAllChips : chip;
    for (uint32_t gauge = 0; gauge < ttmem::kGauges; gauge++) {
        const Model::Cell& cell = model.cells[chip][gauge];
        CHECK(same(store.metering.read(static_cast<Gauge>(gauge), number), cell.used, cell.reserved, cell.peak,
                   cell.reserved_peak));
        if (!thorough) {
            continue;
        }
        int64_t meter = store.meter(chip, gauge);
        if (meter < 0) {
            CHECK(cell.ever == 0 && cell.reserved_ever == 0);
            continue;
        }
        const ttmem::Group& group = store.at<ttmem::Group>(store.header()->groups_at)[meter];
        const ttmem::Meter& raw = store.raw(meter);
        CHECK(std::max(group.ever, raw.high) == cell.ever);
        CHECK(std::max(group.reserved_ever, raw.reserved_high) == cell.reserved_ever);
        const ttmem::High& open = store.window(store.header()->window).highs[meter];
        CHECK(std::max(open.used, raw.high) == cell.window);
        CHECK(std::max(open.reserved, raw.reserved_high) == cell.reserved_window);
        for (size_t i = 0; i < model.windows.size(); i++) {
            const ttmem::High& high = store.window(i + 1).highs[meter];
            CHECK(high.used == model.windows[i][chip][gauge].first);
            CHECK(high.reserved == model.windows[i][chip][gauge].second);
        }
        for (const auto& [ident, figures] : cell.phases) {
            const ttmem::OpenPhase* phase = store.phase(ident);
            CHECK(phase != nullptr && phase->figures[meter].begin == figures.first);
            CHECK(std::max(phase->figures[meter].peak, raw.high) == figures.second);
        }
    }
    CHECK(store.metering.read_l1(number).used == model.l1(chip));
    CHECK(store.metering.read_l1(number).peak == model.l1_peaks[chip]);
}

void beside_the_model(uint32_t seed) {
    constexpr Kind kKinds[] = {Kind::kDram,   Kind::kTrace,         Kind::kL1, Kind::kL1Small, Kind::kCb,
                               Kind::kKernel, Kind::kDispatchKernel};
    constexpr uint16_t kModelMeshes = 12;
    Made store;
    Model model;
    std::mt19937 random(seed);
    std::array<std::vector<uint16_t>, kModelMeshes> meshes;
    std::vector<uint32_t> live;
    std::vector<uint64_t> phases;
    for (int step = 0; step < 3000; step++) {
        uint16_t mesh = static_cast<uint16_t>(random() % kModelMeshes);
        uint32_t what = random() % 100;
        if (what == 0 || meshes[mesh].empty()) {  // closed and opened again with other chips
            for (size_t i = live.size(); i-- > 0;) {
                if (store.table()[live[i]].mesh == mesh) {
                    model.change(meshes[mesh], store.table()[live[i]], -1);
                    store.free(live[i], 0);
                    live.erase(live.begin() + static_cast<ptrdiff_t>(i));
                }
            }
            meshes[mesh].clear();
            for (uint16_t chip = 0; chip < kModelChips; chip++) {
                if (random() % 3 == 0) {
                    meshes[mesh].push_back(chip);
                }
            }
            store.set_mesh(mesh, meshes[mesh]);
        } else if (what < 3) {
            store.metering.reset_peaks();
            model.reset();
        } else if (what == 3 && model.windows.size() + 1 < ttmem::kWindows) {
            store.metering.next_window(store.header()->head + 1);
            model.next_window();
        } else if (what == 4) {
            phases.push_back(static_cast<uint64_t>(step) + 1);
            store.begin_phase(phases.back());
            model.begin_phase(phases.back());
        } else if (what == 5 && !phases.empty()) {
            std::swap(phases[random() % phases.size()], phases.back());
            store.end_phase(phases.back());
            model.end_phase(phases.back());
            phases.pop_back();
        } else if (what < 52 && !live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            const Record& allocation = store.table()[live.back()];
            model.change(meshes[allocation.mesh], allocation, -1);
            random() % 2 == 0 ? store.free(live.back(), 0) : store.forget(live.back());
            live.pop_back();
        } else {
            live.push_back(store.put(mesh, kKinds[random() % 7], random() % 100000, random() % 4096));
            model.change(meshes[mesh], store.table()[live.back()], 1);
        }
        for (uint32_t chip = 0; chip <= kAll; chip++) {
            check_chip(store, model, chip, step % 50 == 0);
        }
    }
    CHECK(store.groups(Gauge::kDram) > 5 && store.groups(Gauge::kDram) <= kModelChips && model.windows.size() > 10);
    CHECK(store.header()->meters_turn % 2 == 0);
}

// A window ends with the last record of half a ring, and so many are kept.
void windows_are_half_a_ring() {
    Made store;
    store.set_mesh(0, {0, 1});
    CHECK(store.header()->window == 1 && store.window(1).first == 1 && store.window(1).last == 0);
    uint32_t low = store.put(0, Kind::kDram, 7, 0);
    for (uint32_t i = 1; i < ttmem::kWindowRecords - 1; i++) {
        store.append(Event::kCacheCleared, [](Record&) {});
    }
    uint32_t high = store.put(0, Kind::kDram, 100, 0);  // the last record of the window is part of it
    CHECK(store.header()->head == ttmem::kWindowRecords && store.header()->window == 1);
    store.free(high, 0);
    CHECK(store.header()->window == 2 && store.window(1).last == ttmem::kWindowRecords);
    CHECK(store.window(2).number == 2 && store.window(2).first == ttmem::kWindowRecords + 1);
    int64_t dram = store.meter(1, static_cast<uint32_t>(Gauge::kDram));
    CHECK(store.window(1).highs[dram].used == 107);
    CHECK(store.window(2).highs[dram].used == 107);  // what it began with
    store.free(low, 0);
    for (uint32_t i = 0; i < 70 * ttmem::kWindowRecords; i++) {
        store.append(Event::kCacheCleared, [](Record&) {});
    }
    CHECK(store.header()->window == 72 && store.window(72).number == 72 && store.window(71).highs[dram].used == 0);
    CHECK(store.window(9).number == 9 && store.window(8).number == 72);  // the same row
    CHECK(store.ever(0, Gauge::kDram) == 107);
}

void more_phases_than_rows() {
    Made store;
    for (uint64_t ident = 1; ident <= ttmem::kOpenPhases + 3; ident++) {
        store.begin_phase(ident);
    }
    CHECK(store.header()->phases_began == ttmem::kOpenPhases + 3 && store.header()->phases_full == 3);
    CHECK(store.phase(ttmem::kOpenPhases) != nullptr && store.phase(ttmem::kOpenPhases + 1) == nullptr);
    store.end_phase(ttmem::kOpenPhases + 1);
    store.end_phase(5);
    store.begin_phase(1000);
    CHECK(store.phase(5) == nullptr && store.phase(1000)->began == store.header()->head);
}

void every_chip_in_a_mesh_of_its_own() {
    Made store;
    std::vector<uint16_t> chips;
    for (uint16_t chip = 0; chip < ttmem::kChips; chip++) {
        chips.push_back(chip);
    }
    store.set_mesh(0, chips);
    store.put(0, Kind::kL1, 1, 1);
    for (uint16_t chip = 0; chip < ttmem::kChips - 1; chip++) {
        uint16_t mesh = static_cast<uint16_t>(chip + 1);
        store.set_mesh(mesh, {chip});
        for (uint8_t kind = 0; kind <= static_cast<uint8_t>(Kind::kFirmware); kind++) {
            store.free(store.put(mesh, static_cast<Kind>(kind), 1, 1), 0);
        }
    }
    CHECK(store.groups(Gauge::kL1) == ttmem::kChips && store.header()->meters_used <= ttmem::kMeters);
    store.put(0, Kind::kL1, 1, 1);
    store.put(200, Kind::kL1, 5, 1);
    CHECK(store.all(Gauge::kL1).used == 2 * ttmem::kChips + 5);
    for (uint32_t chip = 0; chip < ttmem::kChips; chip++) {
        CHECK(store.chip(chip, Gauge::kL1).used == (chip == 199 ? 7u : 2u));
    }
}

// Peaks of many threads, read and reset by another: none is lost, none is seen that never was.
void many_threads() {
    Made store;
    store.set_mesh(0, {0, 1});
    constexpr uint64_t kThreads = 4, kEach = 5000, kSize = 10;
    std::vector<std::thread> threads;
    std::atomic<uint64_t> running{kThreads};
    for (uint64_t t = 0; t < kThreads; t++) {
        threads.emplace_back([&] {
            for (uint64_t i = 0; i < kEach; i++) {
                uint32_t slot;
                {
                    ttmem::Locked held(store.lock);
                    slot = store.put(0, Kind::kDram, kSize, 1);
                }
                ttmem::Locked held(store.lock);
                store.free(slot, 0);
            }
            running--;
        });
    }
    uint64_t highest = 0;
    do {
        ttmem::Locked held(store.lock);
        Figures meter = store.chip(1, Gauge::kDram);
        CHECK(meter.used <= meter.peak && meter.peak <= kThreads * kSize && meter.used % kSize == 0);
        CHECK(store.all(Gauge::kDramPool).used == 2 * meter.used);
        highest = std::max(highest, meter.peak);
        store.metering.reset_peaks();
    } while (running > 0);
    for (std::thread& thread : threads) {
        thread.join();
    }
    highest = std::max(highest, store.chip(1, Gauge::kDram).peak);  // what came after the last look
    CHECK(highest >= kSize && store.all(Gauge::kDram).used == 0 && store.chip(0, Gauge::kDramPool).reserved == 0);
}

}  // namespace

int main() {
    a_buffer_on_a_mesh();
    which_pool_a_kind_is_in();
    what_counts_and_what_does_not();
    what_splits_a_meter();
    an_allocation_that_moves();
    for (uint32_t seed = 1; seed <= 5; seed++) {
        beside_the_model(seed);
    }
    windows_are_half_a_ring();
    more_phases_than_rows();
    every_chip_in_a_mesh_of_its_own();
    many_threads();
}
