// SPDX-License-Identifier: Apache-2.0
// Counts the calls that are between the entry of an allocator hook and its end. While another thread is between an
// allocator and the live table, the two cannot be compared.
#pragma once

#include <atomic>
#include <cstdint>

namespace ttmem {

class InFlight {
public:
    // Never less than there were at one moment during this call.
    uint32_t count() const noexcept {
        const uint32_t ended = ended_.load() + ended_locked_.load();
        return begun_.load() + begun_locked_.load() - ended;
    }

    // One of these calls. It ends at the latest when the object is destroyed, also if an exception passes. An atomic
    // step costs as much as all meters, so what can be counted with the store's lock held has a count of its own.
    class Call {
    public:
        Call() = default;
        ~Call() {
            if (calls_ != nullptr) {
                calls_->ended_.fetch_add(1);
            }
        }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

        void begin(InFlight& calls) noexcept {
            calls.begun_.fetch_add(1);
            calls_ = &calls;
        }
        void begin_locked(InFlight& calls) noexcept {
            add_one(calls.begun_locked_);
            calls_ = &calls;
        }
        void end_locked() noexcept {
            add_one(calls_->ended_locked_);
            calls_ = nullptr;
        }

    private:
        static void add_one(std::atomic<uint32_t>& count) noexcept {
            count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        }
        InFlight* calls_ = nullptr;
    };

private:
    std::atomic<uint32_t> begun_{0}, ended_{0};
    std::atomic<uint32_t> begun_locked_{0}, ended_locked_{0};  // changed only with the store's lock held
};

}  // namespace ttmem
