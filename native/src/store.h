// SPDX-License-Identifier: Apache-2.0
// The agent's memory: writes records, keeps the live table, and remembers names. Every method that changes something
// wants the lock held; nothing here calls out of the agent or makes a system call, except when a map has to grow.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "clock.h"
#include "hot_state.h"
#include "layout.h"
#include "map.h"
#include "metering.h"

namespace ttmem {

// Where everything lies. Readers are told by the header; a hook that does not have to ask it touches less memory.
constexpr uint64_t kMeshesAt = sizeof(Header);
constexpr uint64_t kChipsAt = kMeshesAt + sizeof(Mesh) * kMeshes;
constexpr uint64_t kMetersAt = kChipsAt + sizeof(Chip) * kChips;
constexpr uint64_t kGroupsAt = kMetersAt + sizeof(Meter) * kMeters;
constexpr uint64_t kWindowsAt = kGroupsAt + sizeof(Group) * kMeters;
constexpr uint64_t kPhasesAt = kWindowsAt + sizeof(Window) * kWindows;
constexpr uint64_t kRingAt =
    (kPhasesAt + sizeof(OpenPhase) * kOpenPhases + 4095) & ~4095ull;  // its pages are asked for
constexpr uint64_t kTableAt = kRingAt + sizeof(Record) * kRingSlots;
constexpr uint64_t kBlobsAt = kTableAt + sizeof(Record) * uint64_t{kTableSlots};
constexpr uint64_t kTotal = kBlobsAt + kBlobBytes;

// Held for some ten nanoseconds at a time, so waiting means spinning. A long wait means that the holder was preempted.
class SpinLock {
public:
    void lock() noexcept {
        if (__builtin_expect(held_.exchange(true, std::memory_order_acquire), 0)) {
            wait();
        }
    }
    void unlock() noexcept { held_.store(false, std::memory_order_release); }

private:
    void wait() noexcept;

    std::atomic<bool> held_{false};
};

class Locked {
public:
    explicit Locked(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
    ~Locked() { lock_.unlock(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

private:
    SpinLock& lock_;
};

// A set of cores: bit x of row y. As a blob it is cut after the last row that has a core.
struct Cores {
    static constexpr uint32_t kRows = 32;
    uint64_t rows[kRows];

    Cores() { std::memset(rows, 0, sizeof(rows)); }
    void add(uint64_t x, uint64_t y) {
        if (x < 64 && y < kRows) {
            rows[y] |= 1ull << x;
        }
    }
    void add_range(const uint64_t range[4]);  // start x, start y, end x, end y, all inclusive
    void merge(const Cores& other);
    uint32_t count() const;
    uint32_t height() const;
    bool operator==(const Cores& other) const { return std::memcmp(rows, other.rows, sizeof(rows)) == 0; }
};

class Store {
    // What every record needs comes first: with the first two pointers of the meters it is less than two cache lines.
public:
    SpinLock lock;

private:
    uint32_t free_count_ = 0;
    Header* header_ = nullptr;
    uint64_t window_end_ = kWindowRecords + 1;  // the first record that is not in the window that is open
    uint32_t* free_slots_ = nullptr;
    Clock clock_;

public:
    Metering metering;  // of what is in the live table

    // Lays out a fresh memory file. Returns false if there is no memory at all.
    bool create(uint32_t pid) noexcept;
    void destroy() noexcept;
    // Moves private memory into a file that readers can be given, when there was no descriptor for one at first.
    // Copies with the lock held: some milliseconds, once, in a process that had run out of descriptors.
    bool publish() noexcept;

    bool short_of_descriptors() const { return short_; }  // that is why there is no file
    int fd() const { return fd_; }  // -1: nobody else can see it (no descriptor or no memfd was to be had)
    Header* header() const { return header_; }
    Mesh* meshes() const { return at<Mesh>(kMeshesAt); }
    Chip* chips() const { return at<Chip>(kChipsAt); }
    Record* ring() const { return at<Record>(kRingAt); }
    Record* table() const { return at<Record>(kTableAt); }

    // Writes the next record: `fill` sets the fields that have no default.
    template <typename Fill>
    const Record& append(Event event, Fill fill) noexcept {
        Record fresh{};
        fresh.layout = 255;
        fresh.slot = kNoSlot;
        fill(fresh);
        fresh.event = event;
        return write(fresh);
    }

    // Fetches what the next allocation will write to, while nobody waits for it. Without the lock: at worst in vain.
    [[gnu::hot]] void prefetch() const noexcept {
        const uint64_t head = __atomic_load_n(&header_->head, __ATOMIC_RELAXED);
        __builtin_prefetch(&ring()[(head + 1) & (kRingSlots - 1)], 1);
        const uint32_t count = __atomic_load_n(&free_count_, __ATOMIC_RELAXED);
        if (count > 0) {
            const uint32_t slot = __atomic_load_n(&free_slots_[count - 1], __ATOMIC_RELAXED);
            __builtin_prefetch(&table()[slot < kTableSlots ? slot : 0], 1);
        }
    }

    // Records an allocation and puts it into the table. Returns its slot, kNoSlot if the table is full.
    template <typename Fill>
    uint32_t allocate(Fill fill) noexcept {
        uint32_t slot = take_slot();
        if (slot == kNoSlot) {
            return slot;  // counted; without a slot in the table its end could not be told
        }
        Record fresh{};
        fresh.layout = 255;
        fill(fresh);
        fresh.slot = slot;
        fresh.event = Event::kAllocated;
        const uint64_t sequence = write(fresh).sequence;
        set_fields(table()[slot], fresh);
        enter(slot, sequence);
        return slot;
    }

    // Records that the allocation in a slot is gone.
    [[gnu::hot]] void free(uint32_t slot, uint8_t flags) noexcept;
    // Takes an allocation out of the table without a record of its own.
    [[gnu::hot]] void forget(uint32_t slot) noexcept;
    // The same, but the slot is not free: keep() is to follow.
    void clear(uint32_t slot) noexcept;
    // Puts a record that was just appended into the table.
    [[gnu::hot]] void keep(uint32_t slot, const Record& record) noexcept;
    [[gnu::hot]] uint32_t take_slot() noexcept;
    // The allocation in a slot, if it is that one still, is known by another name from now on.
    void rename(uint32_t slot, uint64_t sequence, uint32_t name) noexcept;
    // A sentence for readers, once.
    void complain(const char* sentence) noexcept;

    // More is known of an allocation: one of the flags.
    void mark(uint32_t slot, uint64_t sequence, uint8_t flag) noexcept;
    uint32_t blob(const void* bytes, uint32_t size) noexcept;
    uint32_t text(const char* text) noexcept { return blob(text, static_cast<uint32_t>(std::strlen(text))); }
    uint32_t core_set(const Cores& cores) noexcept { return blob(cores.rows, cores.height() * 8); }

    static uint32_t thread_id() noexcept {
        return __builtin_expect(of_thread.pid == of_process.pid, 1) ? of_thread.id : ask_thread_id();
    }

private:
    template <typename T>
    T* at(uint64_t offset) const {
        return reinterpret_cast<T*>(reinterpret_cast<char*>(header_) + offset);
    }

    // Copies all fields but the sequence, one by one: `from` was just set field by field and stays in registers. A copy
    // as a block would wait until the processor has stored all its fields.
    static inline __attribute__((always_inline)) void set_fields(Record& to, const Record& from) noexcept {
        to.time = from.time;
        to.event = from.event;
        to.kind = from.kind;
        to.layout = from.layout;
        to.flags = from.flags;
        to.thread = from.thread;
        to.address = from.address;
        to.size = from.size;
        to.per_bank = from.per_bank;
        to.slot = from.slot;
        to.mesh = from.mesh;
        to.core_count = from.core_count;
        to.cores = from.cores;
        to.program = from.program;
        to.name = from.name;
    }

    // Writes the next record of the ring: `fill` sets all its fields but the sequence.
    template <typename Fill>
    inline __attribute__((always_inline)) Record& write(Fill fill) noexcept {
        const uint64_t sequence = header_->head + 1;
        if (__builtin_expect(sequence == window_end_, 0)) {
            next_window(sequence);
        }
        Record& record = ring()[sequence & (kRingSlots - 1)];
        // While a slot is overwritten, no reader may take it for its old or its new record.
        __atomic_store_n(&record.sequence, 0, __ATOMIC_RELAXED);
        std::atomic_thread_fence(std::memory_order_release);
        fill(record);
        __atomic_store_n(&record.sequence, sequence, __ATOMIC_RELEASE);
        __atomic_store_n(&header_->head, sequence, __ATOMIC_RELEASE);
        // The ring is larger than the caches: the slot after next is fetched before it is needed.
        __builtin_prefetch(&ring()[(sequence + 2) & (kRingSlots - 1)], 1);
        return record;
    }
    // The same with the fields of `fresh`, which gets its time and thread here.
    inline __attribute__((always_inline)) Record& write(Record& fresh) noexcept {
        fresh.time = clock_.now();
        fresh.thread = thread_id();
        return write([&](Record& record) { set_fields(record, fresh); });
    }

    // The fields of a slot in the table are complete: it counts from now on.
    void enter(uint32_t slot, uint64_t sequence) noexcept {
        Record& allocation = table()[slot];
        __atomic_store_n(&allocation.sequence, sequence, __ATOMIC_RELEASE);
        metering.add(allocation);
        if (slot == header_->table_high) {
            header_->table_high = slot + 1;
        }
    }

    static uint32_t ask_thread_id() noexcept;
    [[gnu::cold]] void next_window(uint64_t first) noexcept;

    int fd_ = -1;
    bool short_ = false;
    Map blobs_;
};

}  // namespace ttmem
