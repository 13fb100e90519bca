// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

namespace ttmem {

namespace {

constexpr uint64_t kTooLong = 10'000;      // ticks for a reading: the thread was interrupted meanwhile
constexpr uint64_t kShortest = 1'000'000;  // nanoseconds between two readings that tell the rate
constexpr uint64_t kAlike = 1024;          // two rates are the same if they differ by less than this part

uint64_t divided(uint64_t value, uint64_t by) noexcept {  // times 2^32
    return static_cast<uint64_t>((static_cast<unsigned __int128>(value) << 32) / by);
}

// The kernel has checked that the counters of all cores run alike and never stop.
bool kernel_trusts_counter() noexcept {
#if defined(__x86_64__)
    int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    char name[8] = {};
    ssize_t length = file < 0 ? -1 : ::read(file, name, sizeof(name) - 1);
    if (file >= 0) {
        close(file);
    }
    return length > 0 && std::strcmp(name, "tsc\n") == 0;
#else
    return false;
#endif
}

}  // namespace

void Clock::use_counter_if_trusted() noexcept { counted_ = kernel_trusts_counter(); }

// The rate since the reading before is used if it is nearly that of the stretch before. It is not, for example, after
// the machine was suspended or a virtual one was moved to another.
uint64_t Clock::read() noexcept {
    const uint64_t before = ticks(), time = monotonic_time(), taken = ticks() - before;
    const uint64_t middle = before + taken / 2, counted = middle - ticks_, passed = time - time_;
    if (!counted_ || taken > kTooLong) {
        trusted_ = 0;
    } else if (passed >= kShortest) {  // the first one tells no rate: the two after it are not alike
        const uint64_t rate = counted == 0 ? 0 : divided(passed, counted);
        const uint64_t difference = rate > rate_ ? rate - rate_ : rate_ - rate;
        trusted_ = difference < rate / kAlike ? divided(kStretch, rate) : 0;
        rate_ = rate;
        ticks_ = middle;
        time_ = time;
    }
    return time > last_ ? time : last_;
}

}  // namespace ttmem
