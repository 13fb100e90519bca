// SPDX-License-Identifier: Apache-2.0
// What the meters add to an event, by the width of the mesh: one line for 1, 8 and 32 chips, each with the nanoseconds
// that adding and removing a DRAM buffer take without and with a program of its own on each chip.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "store.h"

using ttmem::Kind;
using ttmem::Record;

namespace {

constexpr int kRuns = 200, kPairs = 5000;

double pair_cost(ttmem::Metering& metering) {
    Record buffer{};
    buffer.kind = Kind::kDram;
    buffer.size = 4096;
    buffer.per_bank = 512;
    double best = 1e9;  // of many short runs: others use the machine, too
    for (int run = 0; run < kRuns; run++) {
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kPairs; i++) {
            metering.add(buffer);
            metering.remove(buffer);
        }
        std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        best = std::min(best, spent.count() / kPairs);
    }
    return best;
}

}  // namespace

int main() {
    for (uint16_t chips : {1, 8, 32}) {
        ttmem::Store store;
        if (!store.create(static_cast<uint32_t>(getpid()))) {
            return 1;
        }
        ttmem::Mesh described{};
        described.banks[0].banks = 12;
        std::vector<uint16_t> all;
        for (uint16_t chip = 0; chip < chips; chip++) {
            all.push_back(chip);
        }
        store.metering.set_mesh(0, described, all);
        const double plain = pair_cost(store.metering);
        for (uint16_t chip = 0; chip < chips; chip++) {  // a router and a part of an all_gather
            const uint16_t mesh = static_cast<uint16_t>(chip + 1);
            store.metering.set_mesh(mesh, described, {chip});
            for (Kind kind : {Kind::kFabricKernel, Kind::kKernel, Kind::kCb}) {
                Record part{};
                part.kind = kind;
                part.size = 1000u + chip;
                part.mesh = mesh;
                store.metering.add(part);
            }
        }
        std::printf("%u %.2f %.2f\n", chips, plain, pair_cost(store.metering));
        store.destroy();
    }
}
