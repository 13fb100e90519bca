// SPDX-License-Identifier: Apache-2.0
// The phases that the workload has begun and not ended. An agent that starts meanwhile, because only now a device is
// opened or because the process was forked, begins its records with them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "store.h"

namespace ttmem {

// Names the process that holds it, so a forked child takes over what a thread of its parent held.
class ProcessLock {
public:
    void lock() noexcept;
    void unlock() noexcept { holder_.store(0, std::memory_order_release); }

private:
    std::atomic<pid_t> holder_{0};
};

struct Phase {
    uint64_t ident, parent;
    char name[256];
};

class Phases {
public:
    ProcessLock lock;  // to be taken before the store's; began(), ended() and write_all() want it held

    void began(const Phase& phase) noexcept;
    void ended(uint64_t ident) noexcept;
    void write_all(Store& store) const noexcept;

private:
    // A phase that was begun inside so many is not told to an agent that starts later.
    static constexpr uint32_t kMost = 64;

    Phase open_[kMost];
    uint32_t count_ = 0;
};

// The record, and the row in the table of open phases.
void write_began(Store& store, const Phase& phase) noexcept;
void write_ended(Store& store, uint64_t ident) noexcept;

extern Phases phases;

}  // namespace ttmem
