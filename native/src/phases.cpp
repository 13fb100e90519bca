// SPDX-License-Identifier: Apache-2.0
#include "phases.h"

#include <sched.h>
#include <unistd.h>

namespace ttmem {

Phases phases;

void ProcessLock::lock() noexcept {
    pid_t own = getpid();
    for (;;) {
        pid_t holder = holder_.load(std::memory_order_relaxed);
        if (holder != own && holder_.compare_exchange_weak(holder, own, std::memory_order_acquire)) {
            return;
        }
        sched_yield();
    }
}

void Phases::began(const Phase& phase) noexcept {
    if (count_ < kMost) {
        open_[count_++] = phase;
    }
}

void Phases::ended(uint64_t ident) noexcept {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; i++) {  // in order: a phase stands before those inside it
        if (open_[i].ident != ident) {
            open_[kept++] = open_[i];
        }
    }
    count_ = kept;
}

void Phases::write_all(Store& store) const noexcept {
    for (uint32_t i = 0; i < count_; i++) {
        write_began(store, open_[i]);
    }
}

void write_began(Store& store, const Phase& phase) noexcept {
    // Half of the room is for core sets and operations, however many names a workload thinks up.
    bool room = store.header()->blobs_used < kBlobBytes / 2;
    store.header()->blobs_full += !room;
    uint32_t name = room ? store.text(phase.name) : 0;
    const Record& began = store.append(Event::kPhaseBegan, [&](Record& r) {
        r.address = phase.ident;
        r.size = phase.parent;
        r.name = name;
    });
    store.metering.phase_began(began);
}

void write_ended(Store& store, uint64_t ident) noexcept {
    store.append(Event::kPhaseEnded, [&](Record& r) { r.address = ident; });
    store.metering.phase_ended(ident);
}

}  // namespace ttmem
