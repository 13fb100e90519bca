// SPDX-License-Identifier: Apache-2.0
// CLOCK_MONOTONIC for records. Reading it for each record was a third of the cost of a record, so between two readings
// the processor's own counter is used, if the kernel trusts it as well. A time is then off by some ten nanoseconds. It
// is at most kStretch after a reading, and the kernel slews its clock by at most 1/2000, so no time is off by more than
// five microseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace ttmem {

inline uint64_t monotonic_time() noexcept {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

// The processor's counter; 0 if it has none that is known.
inline uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

// One thread at a time.
class Clock {
public:
    // Until then every time is a reading.
    void use_counter_if_trusted() noexcept;
    bool uses_counter() const { return trusted_ != 0; }

    // Nanoseconds. Never less than before.
    [[gnu::hot]] uint64_t now() noexcept {
        const uint64_t since = ticks() - ticks_;
        const uint64_t time = time_ + static_cast<uint64_t>((static_cast<unsigned __int128>(since) * rate_) >> 32);
        return last_ = __builtin_expect(since >= trusted_, 0) ? read() : time > last_ ? time : last_;
    }

private:
    static constexpr uint64_t kStretch = 10'000'000;  // nanoseconds

    [[gnu::cold]] uint64_t read() noexcept;

    uint64_t ticks_ = 0, time_ = 0;  // at the last reading
    uint64_t trusted_ = 0;           // ticks after that for which the rate is taken to hold; 0: read the clock
    uint64_t rate_ = 0;              // nanoseconds per tick, times 2^32, between the last two readings
    uint64_t last_ = 0;
    bool counted_ = false;  // the counter can be used at all
};

}  // namespace ttmem
