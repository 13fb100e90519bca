// SPDX-License-Identifier: Apache-2.0
// A hash map from 64-bit keys to 32-bit values that never calls malloc: open addressing in memory of its own.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace ttmem {

class Map {
public:
    // Returns nullptr if the key is not there. The pointer is good until the next change.
    uint32_t* find(uint64_t key) const {
        if (count_ == 0) {
            return nullptr;
        }
        for (uint32_t at = home(key);; at = (at + 1) & mask_) {
            if (!entries_[at].taken) {
                return nullptr;
            }
            if (entries_[at].key == key) {
                return &entries_[at].value;
            }
        }
    }

    // The key must not be there yet. False if there is no memory.
    [[gnu::hot]] bool insert(uint64_t key, uint32_t value) {
        if (2 * (count_ + 1) > capacity() && !grow()) {
            return false;
        }
        place(key, value);
        count_++;
        return true;
    }

    // The value of a key, which is added first if it is not there. nullptr if there is no memory. The pointer is good
    // until the next change.
    [[gnu::hot]] uint32_t* find_or_add(uint64_t key, bool& added) {
        added = false;
        if (2 * (count_ + 1) > capacity() && !grow()) {
            return find(key);
        }
        uint32_t at = home(key);
        for (; entries_[at].taken; at = (at + 1) & mask_) {
            if (entries_[at].key == key) {
                return &entries_[at].value;
            }
        }
        entries_[at] = {key, 0, 1};
        count_++;
        added = true;
        return &entries_[at].value;
    }

    // The same as insert(), unless it is there.
    bool insert_once(uint64_t key, uint32_t value) { return find(key) != nullptr || insert(key, value); }

    bool erase(uint64_t key) {
        uint32_t* value = find(key);
        if (value == nullptr) {
            return false;
        }
        erase_found(value);
        return true;
    }

    // Erases the entry of a value that was found.
    void erase_found(uint32_t* value) {
        uint32_t hole = static_cast<uint32_t>(
            reinterpret_cast<Entry*>(reinterpret_cast<char*>(value) - offsetof(Entry, value)) - entries_);
        // Close the gap: entries that were pushed past the hole move back.
        for (uint32_t at = hole;;) {
            at = (at + 1) & mask_;
            if (!entries_[at].taken) {
                break;
            }
            uint32_t wish = home(entries_[at].key);
            if (((at - wish) & mask_) >= ((at - hole) & mask_)) {
                entries_[hole] = entries_[at];
                hole = at;
            }
        }
        entries_[hole].taken = 0;
        count_--;
    }

    uint32_t size() const { return count_; }

    template <typename Visit>
    void each(Visit visit) const {
        for (uint32_t at = 0; at < capacity(); at++) {
            if (entries_[at].taken) {
                visit(entries_[at].key, entries_[at].value);
            }
        }
    }

private:
    struct Entry {
        uint64_t key;
        uint32_t value;
        uint32_t taken;
    };

    uint32_t capacity() const { return entries_ == nullptr ? 0 : mask_ + 1; }

    uint32_t home(uint64_t key) const { return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15ull) >> 32) & mask_; }

    void place(uint64_t key, uint32_t value) {
        uint32_t at = home(key);
        while (entries_[at].taken) {
            at = (at + 1) & mask_;
        }
        entries_[at] = {key, value, 1};
    }

    [[gnu::cold, gnu::noinline]] bool grow() {
        uint32_t old = capacity(), wanted = old == 0 ? 256 : old * 2;
        void* memory =
            mmap(nullptr, sizeof(Entry) * wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            return false;
        }
        Entry* before = entries_;
        entries_ = static_cast<Entry*>(memory);
        mask_ = wanted - 1;
        for (uint32_t i = 0; i < old; i++) {
            if (before[i].taken) {
                place(before[i].key, before[i].value);
            }
        }
        if (before != nullptr) {
            munmap(before, sizeof(Entry) * old);
        }
        return true;
    }

    Entry* entries_ = nullptr;
    uint32_t mask_ = 0;
    uint32_t count_ = 0;
};

}  // namespace ttmem
