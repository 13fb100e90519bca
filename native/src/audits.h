// SPDX-License-Identifier: Apache-2.0
// Audits: the live table compared with what the allocators themselves count.
#pragma once

#include <atomic>
#include <cstdint>

#include "meshes.h"
#include "metal.h"
#include "process_traits.h"
#include "store.h"

namespace ttmem {

// Every method is to be called without the store's lock.
class Audits {
public:
    // `in_flight` counts the threads that are between an allocator and the live table.
    Audits(Store& store, Meshes& meshes, const ProcessTraits& traits, const std::atomic<uint32_t>& in_flight)
        : store_(store), meshes_(meshes), traits_(traits), in_flight_(in_flight) {}

    // A buffer came or went, and the caller is still in flight. Audits if it is time to.
    [[gnu::hot]] void after_change(const Metal& metal, uint16_t index, void* allocator) {
        OpenMesh& mesh = meshes_[index];
        // Not one atomic step: a lost count only shifts the next look.
        uint32_t events = __atomic_load_n(&mesh.events, __ATOMIC_RELAXED) + 1;
        __atomic_store_n(&mesh.events, events, __ATOMIC_RELAXED);
        if (events % kLookEvery == 0 || events <= kLookEvery / 8) {
            audit_if_due(metal, index, allocator);
        }
    }

    // Writes an audit of the mesh, unless other threads than `expected` are in flight. Returns whether it did.
    bool audit(const Metal& metal, uint16_t index, void* allocator, uint32_t expected);

private:
    static constexpr uint32_t kLookEvery = 32;  // events, before the clock is asked whether an audit is due

    void audit_if_due(const Metal& metal, uint16_t index, void* allocator);

    Store& store_;
    Meshes& meshes_;
    const ProcessTraits& traits_;
    const std::atomic<uint32_t>& in_flight_;
};

}  // namespace ttmem
