// SPDX-License-Identifier: Apache-2.0
// ttmem::InFlight: every call that begins ends once, however it ends, and none is overlooked meanwhile.
#include "in_flight.h"

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"

using ttmem::InFlight;

namespace {

void test_one_thread() {
    InFlight calls;
    {
        InFlight::Call never_begun, first, second;
        CHECK(calls.count() == 0);
        first.begin(calls);
        second.begin_locked(calls);
        CHECK(calls.count() == 2);
        first.end_locked();
        CHECK(calls.count() == 1);
    }
    CHECK(calls.count() == 0);
    try {
        InFlight::Call call;
        call.begin(calls);
        throw std::runtime_error("refused");
    } catch (const std::runtime_error&) {
        CHECK(calls.count() == 0);
    }
}

// A thread that looks while others are inside sees at least one of them, because one of them always is.
void test_several_threads() {
    InFlight calls;
    std::mutex lock;
    std::atomic<bool> stop{false};
    InFlight::Call always;
    always.begin(calls);
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; number++) {
        threads.emplace_back([&, number] {
            for (int i = 0; i < 20000; i++) {
                InFlight::Call call;
                if (number % 2 == 0) {  // as an allocation
                    call.begin(calls);
                    std::lock_guard<std::mutex> held(lock);
                    call.end_locked();
                } else {  // as a free
                    std::lock_guard<std::mutex> held(lock);
                    call.begin_locked(calls);
                }
            }
        });
    }
    std::thread looking([&] {
        while (!stop.load()) {
            const uint32_t count = calls.count();
            CHECK(count >= 1);
        }
    });
    for (std::thread& thread : threads) {
        thread.join();
    }
    stop.store(true);
    looking.join();
    CHECK(calls.count() == 1);
}

}  // namespace

int main() {
    test_one_thread();
    test_several_threads();
    return 0;
}
