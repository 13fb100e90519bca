// SPDX-License-Identifier: Apache-2.0
// ttmem::Clock: the kernel's clock, also where the processor's counter is read instead; never backwards.
#include "clock.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "check.h"

using ttmem::Clock;
using ttmem::monotonic_time;

namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kMostOff = 50'000;  // nanoseconds: ten times what a clock that is slewed as fast as possible makes

bool kernel_uses_counter() {
    if (ttmem::ticks() == 0) {
        return false;  // also in emulation, where the kernel is that of another processor
    }
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string name;
    return file >> name && name == "tsc";
}

// Asks for the time again and again, and compares it with the kernel's before and after.
uint64_t compare(Clock& clock, uint64_t duration) {
    uint64_t asked = 0, last = 0;
    for (const uint64_t begin = monotonic_time(); monotonic_time() < begin + duration; asked++) {
        const uint64_t before = monotonic_time(), time = clock.now(), after = monotonic_time();
        CHECK(time + kMostOff >= before);
        CHECK(time <= after + kMostOff);
        CHECK(time >= last);
        last = time;
    }
    return asked;
}

void test_without_counter() {
    Clock clock;
    CHECK(compare(clock, 20 * kMillisecond) > 0);
    CHECK(!clock.uses_counter());
}

void test_with_counter() {
    Clock clock;
    clock.use_counter_if_trusted();
    bool used = false;
    for (int round = 0; round < 100; round++) {
        CHECK(compare(clock, 3 * kMillisecond) > 0);
        used = used || clock.uses_counter();
    }
    CHECK(used == kernel_uses_counter());
}

// Long after the last reading the counter is not used: there is no telling what happened since.
void test_after_a_pause() {
    Clock clock;
    clock.use_counter_if_trusted();
    for (int round = 0; round < 20; round++) {
        compare(clock, 3 * kMillisecond);
        for (const uint64_t begin = monotonic_time(); monotonic_time() < begin + 20 * kMillisecond;) {
        }
        const uint64_t before = monotonic_time(), time = clock.now(), after = monotonic_time();
        CHECK(time >= before);
        CHECK(time <= after);
    }
}

}  // namespace

int main() {
    test_without_counter();
    test_with_counter();
    test_after_a_pause();
    std::printf("ok\n");
    return 0;
}
