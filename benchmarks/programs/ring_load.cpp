// SPDX-License-Identifier: Apache-2.0
// A workload of the agent's own code without tt-metal: opens a mesh of one chip, hands its ring to the server that
// TTMEM_SOCKET names, and allocates and frees at a given rate, in bursts. Usage: ring_load CHIP_ID [MICROSECONDS]
// from one burst to the next.
//
// A line of standard input is a number of records per second, 0 for a pause. The answer to each is a line with what was
// true before: records written, bytes in DRAM and L1, and the peaks of both.
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "clock.h"
#include "connect.h"
#include "meshes.h"
#include "store.h"

using ttmem::Kind;
using ttmem::monotonic_time;
using ttmem::Record;
using ttmem::Store;

namespace {

constexpr uint64_t kSecond = 1000000000;
constexpr long kMicrosecond = 1000;
constexpr long kBurst = 5000;  // microseconds between two bursts
constexpr size_t kMostLive = 200;
constexpr uint64_t kUnit = 32;
constexpr uint32_t kBanks[] = {12, 64};  // of DRAM and L1

struct Live {
    uint32_t slot;
    int pool;
    uint64_t size;
};

class Load {
public:
    Load(Store& store, uint16_t mesh) : store_(store), mesh_(mesh), random_(mesh + 1u) {}

    void write(uint64_t records) {
        for (; records > 0; records--) {
            const bool room = live_.size() < kMostLive;
            live_.empty() || (room && random_() % 2) ? allocate() : free();
        }
    }

    void print() const {
        std::printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", store_.header()->head, bytes_[0],
                    bytes_[1], peaks_[0], peaks_[1]);
        std::fflush(stdout);
    }

private:
    void allocate() {
        const int pool = static_cast<int>(random_() % 2);
        const uint64_t per_bank = kUnit * (1 + random_() % 64), size = per_bank * kBanks[pool];
        ttmem::Locked held(store_.lock);
        const uint32_t slot = store_.allocate([&](Record& r) {
            r.kind = pool == 0 ? Kind::kDram : Kind::kL1;
            r.size = size;
            r.per_bank = static_cast<uint32_t>(per_bank);
            r.address = (1u << 20) + 4096 * next_++;
            r.mesh = mesh_;
        });
        live_.push_back({slot, pool, size});
        bytes_[pool] += size;
        peaks_[pool] = std::max(peaks_[pool], bytes_[pool]);
    }

    void free() {
        std::swap(live_[random_() % live_.size()], live_.back());
        const Live gone = live_.back();
        live_.pop_back();
        bytes_[gone.pool] -= gone.size;
        ttmem::Locked held(store_.lock);
        store_.free(gone.slot, 0);
    }

    Store& store_;
    uint16_t mesh_;
    std::mt19937_64 random_;
    std::vector<Live> live_;
    uint64_t next_ = 0;
    uint64_t bytes_[2] = {};
    uint64_t peaks_[2] = {};
};

uint16_t open_chip(Store& store, ttmem::Meshes& meshes, uint64_t chip_id) {
    store.chips()[0] = {chip_id, 0, 2, 3, 0, {}};
    store.header()->chips_used = 1;
    ttmem::NewMesh mesh{};
    mesh.shared.state = ttmem::kMeshOpen;
    mesh.shared.chip_count = 1;
    mesh.shared.arch = 2;
    mesh.shared.l1_size = 1499136;
    mesh.shared.l1_base = 104928;
    for (int pool = 0; pool < 2; pool++) {
        mesh.shared.banks[pool].size = 1u << 30;
        mesh.shared.banks[pool].banks = kBanks[pool];
        mesh.shared.banks[pool].unit = kUnit;
    }
    mesh.own.allocator = mesh.own.device = &store;  // only compared
    mesh.own.rows = mesh.own.columns = 1;
    mesh.own.chips = {0};
    const uint64_t grid[4] = {0, 0, 7, 7};
    mesh.own.grid.add_range(grid);
    return meshes.add(std::move(mesh));
}

}  // namespace

int main(int argc, char** argv) {
    static Store store;
    if (argc < 2 || argc > 3 || !store.create(static_cast<uint32_t>(getpid()))) {
        return 1;
    }
    store.header()->coverage = ~uint64_t{0} >> 52;
    ttmem::Meshes meshes(store);
    Load load(store, open_chip(store, meshes, std::strtoull(argv[1], nullptr, 10)));
    link_up(store);
    load.print();
    const long burst = argc == 3 ? std::strtol(argv[2], nullptr, 10) : kBurst;
    const timespec pause{0, burst * kMicrosecond};
    uint64_t rate = 0, began = monotonic_time(), written = 0;
    for (;;) {
        pollfd asked{0, POLLIN, 0};
        if (ppoll(&asked, 1, rate > 0 ? &pause : nullptr, nullptr) > 0) {
            char line[64];
            const ssize_t got = read(0, line, sizeof(line) - 1);
            if (got <= 0) {
                return 0;
            }
            line[got] = 0;
            rate = std::strtoull(line, nullptr, 10);
            began = monotonic_time();
            written = 0;
            load.print();
            continue;
        }
        const uint64_t due = (monotonic_time() - began) * rate / kSecond;  // also what a busy machine made late
        load.write(due - written);
        written = due;
    }
}
