// SPDX-License-Identifier: Apache-2.0
// ttmem::SpinLock with many threads: no count is lost, and no two threads are inside at once.
#include <atomic>
#include <thread>
#include <vector>

#include "check.h"
#include "store.h"

int main() {
    constexpr int kThreads = 8, kTurns = 300000;
    ttmem::SpinLock lock;
    volatile uint64_t count = 0, inside = 0;  // not atomic on purpose: only the lock protects them
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
        threads.emplace_back([&] {
            for (ready++; ready < kThreads;) {
            }
            for (int turn = 0; turn < kTurns; turn++) {
                ttmem::Locked held(lock);
                inside = inside + 1;
                CHECK(inside == 1);
                count = count + 1;
                inside = inside - 1;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(count == uint64_t{kThreads} * kTurns);
}
