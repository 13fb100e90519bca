// SPDX-License-Identifier: Apache-2.0
// The meshes that this process has open, found by allocator or device. Every method wants the store's lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "map.h"
#include "metal_objects.h"
#include "store.h"

namespace ttmem {

constexpr uint16_t kNoMesh = 0xffff;  // an index that stands for none

// What the agent knows of a mesh beside what readers see of it (Mesh in layout.h). A submesh has only chips and grid:
// it shares the allocator of its parent, where its buffers are counted.
struct alignas(64) OpenMesh {
    // Every buffer and every launch changes these; they are one cache line.
    uint64_t reserved[kBufferTypes];  // bytes per bank of the live buffers
    uint32_t buffers;                 // live ones
    uint32_t unit;                    // what sizes in a bank are rounded up to
    // Of the L1 buffers allocated since the workload that ran last began to run. Addresses in L1 have fewer bits.
    uint32_t lowest_l1;
    uint32_t workload;         // that ran last; 0: none, or its next launch is to be recorded as well
    uint32_t workload_before;  // the same, but it stays
    uint16_t events;           // allocations and frees so far, modulo 2^16
    // Meshes with the same number may have chips in common, directly or by way of others. Then a launch on one counts
    // as one on each of them, so that too many are recorded rather than too few. The number is the index of the mesh
    // that has their launches, nearly always its own.
    uint16_t neighbours;

    uint64_t next_audit;  // CLOCK_MONOTONIC, nanoseconds
    void* allocator;      // nullptr: closed, or a submesh
    void* device;         // the MeshDevice, or the IDevice of a chip that was opened by itself
    uint32_t rows, columns;
    std::vector<uint16_t> chips;
    Cores grid;
    // Buffers from before the agent could see, which have no records, and their bytes per bank.
    uint64_t earlier_buffers;
    uint64_t earlier_reserved[kBufferTypes];
};

// A mesh as tt-metal describes it, before it has an index.
struct NewMesh {
    Mesh shared;
    OpenMesh own;
};

class Meshes {
public:
    explicit Meshes(Store& store) : store_(store) { open_.reserve(kMeshes); }

    // The mesh with this allocator, kNoMesh if it is not followed.
    [[gnu::hot]] uint16_t with_allocator(void* allocator) noexcept {
        bool again = allocator == last_allocator_;  // nearly always
        return __builtin_expect(again, 1) ? last_found_ : look_up(allocator);
    }
    // Where a buffer will probably be counted next: the cache lines that this changes. Also without the lock.
    [[gnu::hot]] void prefetch() const noexcept {
        const uint16_t index = __atomic_load_n(&last_found_, __ATOMIC_RELAXED);
        __builtin_prefetch(&open_.data()[index], 1);
        store_.metering.prefetch(index);
    }
    uint16_t with_device(void* device) const noexcept;

    // Also without the lock: a mesh never moves in memory.
    OpenMesh& operator[](uint16_t index) { return open_[index]; }

    // Records that a mesh was opened. Returns its index: the one it has already if another thread was faster, kNoMesh
    // if there is no room.
    uint16_t add(NewMesh&& mesh);
    // The submesh for a rectangle of a mesh's chips (first row, first column, last row, last column), made at its first
    // use. The mesh itself if the rectangle covers it, or if its chips are not known or there is no room.
    uint16_t submesh(uint16_t parent, const uint32_t range[4]);
    // Records that a mesh was closed, with its submeshes. Nothing may be live there.
    void close(uint16_t index);

    // Is this launch to be recorded? Not if the workload ran last on the mesh: it changes nothing then. It is recorded
    // again if an L1 buffer was allocated lower than before: the room between program and buffers is then another.
    [[gnu::hot]] bool launched(uint16_t index, uint32_t workload) noexcept {
        OpenMesh& last = open_[open_[index].neighbours];
        if (last.workload == workload) {
            return false;
        }
        if (last.workload_before != workload) {
            last.workload_before = workload;
            open_[index].lowest_l1 = kNoAddress;
        }
        last.workload = workload;
        return true;
    }
    // The next launch of this workload there is to be recorded in any case.
    void forget_launch(uint16_t index, uint32_t workload) noexcept {
        OpenMesh& last = open_[open_[index].neighbours];
        last.workload = last.workload == workload ? 0 : last.workload;
    }
    [[gnu::hot]] void allocated_l1(uint16_t index, uint64_t address) noexcept {
        if (__builtin_expect(address < open_[index].lowest_l1, 0)) {
            open_[index].lowest_l1 = static_cast<uint32_t>(address);
            open_[open_[index].neighbours].workload = 0;
        }
    }

    // An allocator whose buffers have no records: there was no room for its mesh, or it was closed.
    void ignore(void* allocator) noexcept { ignored_.insert_once(key_of(allocator), 1); }
    bool is_ignored(void* allocator) const noexcept { return ignored_.find(key_of(allocator)) != nullptr; }

private:
    static constexpr uint32_t kNoAddress = ~uint32_t{0};

    static uint64_t key_of(void* allocator) { return reinterpret_cast<uint64_t>(allocator); }
    [[gnu::hot]] uint16_t look_up(void* allocator) noexcept;
    uint16_t free_index() const noexcept;
    void find_neighbours(uint16_t index) noexcept;
    void set(uint16_t index, const Mesh& shared, OpenMesh&& own, uint64_t earlier);
    uint32_t describe(const Mesh& shared) noexcept;

    Store& store_;
    void* last_allocator_ = nullptr;
    uint16_t last_found_ = 0;
    uint16_t last_set_ = 0;
    std::vector<OpenMesh> open_;  // by the index of the Mesh; its room is reserved
    Map allocators_;              // AllocatorImpl -> index
    Map ignored_;                 // AllocatorImpl -> 1
};

}  // namespace ttmem
