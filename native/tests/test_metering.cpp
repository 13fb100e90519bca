// SPDX-License-Identifier: Apache-2.0
// ttmem::Metering: every chip's meters, compared with a model that counts each chip separately, without groups.
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
using ttmem::Gauge;
using ttmem::Kind;
using ttmem::Mesh;
using ttmem::Meter;
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
    Meter all(Gauge gauge) const { return metering.all().gauges[static_cast<int>(gauge)]; }
    Meter chip(uint32_t chip, Gauge gauge) const {
        const ttmem::Meters* found = metering.of_chip(chip);
        CHECK(found != nullptr);
        return found->gauges[static_cast<int>(gauge)];
    }
};

bool same(const Meter& meter, uint64_t used, uint64_t reserved, uint64_t peak, uint64_t reserved_peak) {
    return meter.used == used && meter.reserved == reserved && meter.peak == peak &&
           meter.reserved_peak == reserved_peak;
}

void a_buffer_on_a_mesh() {
    Made store;
    CHECK(store.metering.of_chip(0) == nullptr && store.header()->meters_used == 1);
    store.set_mesh(0, {0, 1, 2});
    CHECK(store.header()->meters_used == 2);  // so an event costs as much as for one chip
    uint32_t slot = store.put(0, Kind::kDram, 1000, 128);
    for (Gauge gauge : {Gauge::kDram, Gauge::kDramPool}) {
        CHECK(same(store.chip(2, gauge), 1000, 1536, 1000, 1536));
        CHECK(same(store.all(gauge), 3000, 4608, 3000, 4608));
    }
    CHECK(same(store.chip(2, Gauge::kL1Pool), 0, 0, 0, 0));
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
        {Kind::kCb, {Gauge::kCb, 2}},
        {Kind::kDfb, {Gauge::kDfb, 2}},
        {Kind::kScratchpad, {Gauge::kScratchpad, 2}},
        {Kind::kKernel, {Gauge::kKernel, 2}},
        {Kind::kFabricKernel, {Gauge::kFabricKernel, -1}},
        {Kind::kDispatchKernel, {Gauge::kDispatchKernel, -1}},
        {Kind::kFirmware, {Gauge::kFirmware, 2}},
    };
    for (const auto& [kind, where] : gauges) {
        Made store;
        store.set_mesh(0, {0});
        store.put(0, kind, 77, 0, 1);
        for (uint32_t i = 0; i < ttmem::kGauges; i++) {
            bool here = i == static_cast<uint32_t>(where.first) || static_cast<int>(i) == where.second;
            CHECK(store.chip(0, static_cast<Gauge>(i)).used == (here ? 77u : 0u));
        }
    }
}

void what_counts_and_what_does_not() {
    Made store;
    store.set_mesh(0, {0});
    store.set_mesh(1, {1});
    store.put(0, Kind::kCb, 500, 100, 5, ttmem::kShared);
    CHECK(same(store.chip(0, Gauge::kCb), 0, 0, 0, 0));
    store.put(0, Kind::kCb, 500, 100, 5);
    CHECK(same(store.chip(0, Gauge::kL1Pool), 500, 0, 500, 0));  // outside the allocator's banks
    store.put(0, Kind::kL1, 300, 100, 3);                        // in lock step, a shard has its address in every bank
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
    CHECK(store.all(Gauge::kL1Pool).used == 1100);
    store.set_mesh(2, {ttmem::kChips, 0xffff});  // chips beyond the limit
    store.put(2, Kind::kL1, 300, 100);
    CHECK(store.all(Gauge::kL1Pool).used == 1100);
}

// Like a program that is for only some chips of a mesh: its parts move, and are never counted twice.
void an_allocation_that_moves() {
    Made store;
    store.set_mesh(0, {0, 1});
    uint32_t slot = store.put(0, Kind::kCb, 64, 64, 1);
    store.set_mesh(1, {1});
    CHECK(store.header()->meters_used == 3 && store.chip(0, Gauge::kCb).used == 64);
    Record allocation = store.table()[slot];
    store.keep(slot, store.append(Event::kAllocated, [&](Record& r) {
        r = allocation;
        r.mesh = 1;
    }));
    CHECK(same(store.chip(0, Gauge::kCb), 0, 0, 64, 0) && same(store.chip(1, Gauge::kCb), 64, 0, 64, 0));
    CHECK(same(store.all(Gauge::kL1Pool), 64, 0, 128, 0));
    store.forget(slot);
    CHECK(same(store.chip(1, Gauge::kL1Pool), 0, 0, 64, 0) && store.all(Gauge::kCb).used == 0);
}

struct Model {
    std::array<std::array<Meter, ttmem::kGauges>, kModelChips + 1> meters{};

    static std::vector<Gauge> gauges(Kind kind) {
        switch (kind) {
            case Kind::kDram: return {Gauge::kDram, Gauge::kDramPool};
            case Kind::kTrace: return {Gauge::kTrace, Gauge::kDramPool};
            case Kind::kL1: return {Gauge::kL1, Gauge::kL1Pool};
            case Kind::kCb: return {Gauge::kCb, Gauge::kL1Pool};
            default: return {Gauge::kDispatchKernel};
        }
    }
    void change(const std::vector<uint16_t>& chips, const Record& allocation, int64_t sign) {
        uint64_t reserved =
            allocation.kind < Kind::kCb ? uint64_t{allocation.per_bank} * kBanks[static_cast<int>(allocation.kind)] : 0;
        for (Gauge gauge : gauges(allocation.kind)) {
            for (uint16_t chip : chips) {
                for (uint32_t which : {uint32_t{chip}, kAll}) {
                    Meter& meter = meters[which][static_cast<size_t>(gauge)];
                    meter.used += allocation.size * static_cast<uint64_t>(sign);
                    meter.reserved += reserved * static_cast<uint64_t>(sign);
                }
            }
        }
        for (auto& gauges : meters) {  // only now: the chips of a mesh change together
            for (Meter& meter : gauges) {
                meter.peak = std::max(meter.peak, meter.used);
                meter.reserved_peak = std::max(meter.reserved_peak, meter.reserved);
            }
        }
    }
    void reset() {
        for (auto& gauges : meters) {
            for (Meter& meter : gauges) {
                meter.peak = meter.used;
                meter.reserved_peak = meter.reserved;
            }
        }
    }
};

bool operator==(const Meter& one, const Meter& other) {
    return same(one, other.used, other.reserved, other.peak, other.reserved_peak);
}

void beside_the_model(uint32_t seed) {
    constexpr Kind kKinds[] = {Kind::kDram, Kind::kTrace, Kind::kL1, Kind::kCb, Kind::kDispatchKernel};
    constexpr uint16_t kModelMeshes = 12;
    Made store;
    Model model;
    std::mt19937 random(seed);
    std::array<std::vector<uint16_t>, kModelMeshes> meshes;
    std::vector<uint32_t> live;
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
        } else if (what < 50 && !live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            const Record& allocation = store.table()[live.back()];
            model.change(meshes[allocation.mesh], allocation, -1);
            random() % 2 == 0 ? store.free(live.back(), 0) : store.forget(live.back());
            live.pop_back();
        } else {
            live.push_back(store.put(mesh, kKinds[random() % 5], random() % 100000, random() % 4096));
            model.change(meshes[mesh], store.table()[live.back()], 1);
        }
        for (uint32_t gauge = 0; gauge < ttmem::kGauges; gauge++) {
            CHECK(store.all(static_cast<Gauge>(gauge)) == model.meters[kAll][gauge]);
            for (uint32_t chip = 0; chip < kModelChips; chip++) {
                const ttmem::Meters* found = store.metering.of_chip(chip);
                CHECK((found == nullptr ? Meter{} : found->gauges[gauge]) == model.meters[chip][gauge]);
            }
        }
    }
    CHECK(store.header()->meters_used > 10 && store.header()->meters_used <= kModelChips + 1);
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
        store.set_mesh(static_cast<uint16_t>(chip + 1), {chip});
    }
    CHECK(store.header()->meters_used == ttmem::kMeters);
    store.put(0, Kind::kL1, 1, 1);
    store.put(200, Kind::kL1, 5, 1);
    CHECK(store.all(Gauge::kL1).used == 2 * ttmem::kChips + 5);
    for (uint32_t chip = 0; chip < ttmem::kChips; chip++) {
        CHECK(store.chip(chip, Gauge::kL1).used == (chip == 199 ? 7u : 2u));
    }
}

// Peaks of many threads, read and reset by another thread: none is lost, and none is invented.
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
        Meter meter = store.chip(1, Gauge::kDram);
        CHECK(meter.used <= meter.peak && meter.peak <= kThreads * kSize && meter.used % kSize == 0);
        CHECK(store.all(Gauge::kDramPool).used == 2 * meter.used);
        highest = std::max(highest, meter.peak);
        store.metering.reset_peaks();
    } while (running > 0);
    for (std::thread& thread : threads) {
        thread.join();
    }
    highest = std::max(highest, store.chip(1, Gauge::kDram).peak);  // peaks after the last reading
    CHECK(highest >= kSize && store.all(Gauge::kDram).used == 0 && store.chip(0, Gauge::kDramPool).reserved == 0);
}

}  // namespace

int main() {
    a_buffer_on_a_mesh();
    which_pool_a_kind_is_in();
    what_counts_and_what_does_not();
    an_allocation_that_moves();
    for (uint32_t seed = 1; seed <= 5; seed++) {
        beside_the_model(seed);
    }
    every_chip_in_a_mesh_of_its_own();
    many_threads();
}
