// SPDX-License-Identifier: Apache-2.0
// What the workload itself may ask of the agent: its meters, and to mark a phase. ttmem.collect.agent_meter does.
#include <cstdio>
#include <mutex>

#include "agent.h"
#include "phases.h"

#define TTMEM_EXPORT extern "C" __attribute__((visibility("default")))

using ttmem::Agent;
using ttmem::Gauge;
using ttmem::Locked;
using ttmem::Metering;
using ttmem::Phase;
using ttmem::Store;

namespace {

// DRAM with traces, and everything in L1; then every kind in the order of its number.
constexpr ttmem::Gauge kKindGauges[] = {
    Gauge::kDram, Gauge::kL1,         Gauge::kHost,   Gauge::kL1Small,      Gauge::kTrace,          Gauge::kCb,
    Gauge::kDfb,  Gauge::kScratchpad, Gauge::kKernel, Gauge::kFabricKernel, Gauge::kDispatchKernel, Gauge::kFirmware,
};
constexpr size_t kFigures = 2 + sizeof(kKindGauges) / sizeof(kKindGauges[0]);

// What one chip holds, or all together.
struct Metered {
    int32_t device;  // Metal's number, -1 for all
    uint32_t kinds;  // bit per kind that can be seen
    ttmem::Figures figures[kFigures];
};

constexpr int kOff = -1, kNothingYet = 0;

// Wants the store's lock held.
int copy(const Store& store, Metered* out, size_t room) {
    const ttmem::Header* header = store.header();
    size_t count = 0;
    auto put = [&](int32_t device, uint32_t chip) {
        if (store.metering.knows(chip) && count++ < room) {
            Metered& row = out[count - 1];
            row.device = device;
            row.kinds = static_cast<uint32_t>(header->coverage);
            row.figures[0] = store.metering.read(Gauge::kDramPool, chip);
            row.figures[1] = store.metering.read_l1(chip);
            for (size_t i = 2; i < kFigures; i++) {
                row.figures[i] = store.metering.read(kKindGauges[i - 2], chip);
            }
        }
    };
    put(-1, Metering::kAllChips);
    for (uint32_t chip = 0; chip < header->chips_used; chip++) {
        put(static_cast<int32_t>(store.chips()[chip].number), chip);
    }
    return static_cast<int>(count);
}

// The agent, or why there is none.
Agent* find(int& reason) {
    Agent* agent = Agent::started();
    bool blind = agent == nullptr ? Agent::is_off() : agent->store.header()->coverage == 0;
    reason = blind ? kOff : kNothingYet;
    return blind ? nullptr : agent;
}

}  // namespace

// Writes one Metered for all chips together and one for each that was ever opened, as many as there is room for. With
// `reset` every peak is reset in the same step. Returns how many there are, 0 if this process has not touched
// tt-metal yet, and -1 if the agent is switched off or sees nothing.
TTMEM_EXPORT int ttmem_agent_meters(int reset, Metered* out, size_t room) {
    int reason;
    Agent* agent = find(reason);
    if (agent == nullptr) {
        return reason;
    }
    Locked held(agent->store.lock);
    int count = copy(agent->store, out, room);
    if (reset != 0) {
        agent->store.metering.reset_peaks();
    }
    return count;
}

// Marks where a phase begins or ends, and does what ttmem_agent_meters does with `reset`: nothing comes between.
TTMEM_EXPORT int ttmem_agent_phase(int begin, uint64_t ident, uint64_t parent, const char* name, Metered* out,
                                   size_t room) {
    Phase phase{ident, parent, {}};
    std::snprintf(phase.name, sizeof(phase.name), "%s", name);
    std::lock_guard<ttmem::ProcessLock> guard(ttmem::phases.lock);
    begin != 0 ? ttmem::phases.began(phase) : ttmem::phases.ended(ident);
    int reason;
    Agent* agent = find(reason);
    if (agent == nullptr) {
        return reason;
    }
    Locked held(agent->store.lock);
    begin != 0 ? write_began(agent->store, phase) : write_ended(agent->store, ident);
    int count = copy(agent->store, out, room);
    agent->store.metering.reset_peaks();
    return count;
}
