// SPDX-License-Identifier: Apache-2.0
// The live buffers of all allocators that are followed: which slot of the live table each has, and how much they
// reserve on each mesh.
#pragma once

#include <atomic>
#include <cstdint>

#include "buffer_description.h"
#include "map.h"
#include "meshes.h"
#include "metal.h"
#include "process_traits.h"
#include "slot_array.h"
#include "store.h"

namespace ttmem {

class Buffers {
public:
    Buffers(Store& store, Meshes& meshes, const ProcessTraits& traits)
        : store_(store), meshes_(meshes), traits_(traits), any_earlier_(traits.forked) {}
    bool create() noexcept { return objects_of_slots_.create(); }  // false if there is no memory

    // What describe_old() has to ask.
    bool any_earlier() const { return any_earlier_.load(std::memory_order_relaxed); }
    bool any_per_core() const { return any_per_core_.load(std::memory_order_relaxed); }

    // Fills in what the allocator of a mesh has given out before the mesh is followed. `first` is a buffer that was
    // just allocated there, or nullptr. `quiet`: no other thread is between this allocator and the live table. Asks
    // tt-metal, so it is to be called without the store's lock.
    void count_earlier(const Metal& metal, NewMesh& mesh, const NewBuffer* first, bool quiet);

    // The others want the store's lock held.

    [[gnu::hot]] void add(uint16_t mesh, const NewBuffer& buffer) noexcept;
    // False if it is not in the table. `mesh` is kNoMesh if its allocator is not followed.
    [[gnu::hot]] bool remove(uint16_t mesh, void* allocator, const OldBuffer& buffer) noexcept;
    void remove_all(uint16_t mesh) noexcept;

private:
    void free_slot(uint32_t slot, uint8_t flags) noexcept;
    [[gnu::cold]] void count_unknown(uint16_t mesh, void* allocator, const OldBuffer& buffer) noexcept;

    Store& store_;
    Meshes& meshes_;
    const ProcessTraits& traits_;
    std::atomic<bool> any_earlier_;          // there may be buffers from before the agent could see
    std::atomic<bool> any_per_core_{false};  // there was a buffer with an address of its own on each core
    Map addresses_;  // mesh, kind and address -> slot, of buffers in lock step: the allocator frees by these as well
    Map objects_;    // Buffer -> slot, of those with an address of their own on each core
    SlotArray<uint64_t> objects_of_slots_;  // slot -> key in objects_
};

}  // namespace ttmem
