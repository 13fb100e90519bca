// SPDX-License-Identifier: Apache-2.0
// Audits: the live table compared with what the allocators themselves count.
#pragma once

#include <cstdint>

#include "in_flight.h"
#include "meshes.h"
#include "metal.h"
#include "process_traits.h"
#include "store.h"

namespace ttmem {

// Every method is to be called without the store's lock.
class Audits {
public:
    Audits(Store& store, Meshes& meshes, const ProcessTraits& traits, const InFlight& in_flight)
        : store_(store), meshes_(meshes), traits_(traits), in_flight_(in_flight) {}

    // A buffer came or went. Audits if it is time to. `expected` as below.
    [[gnu::hot]] void after_change(const Metal& metal, uint16_t index, void* allocator, uint32_t expected) {
        OpenMesh& mesh = meshes_[index];
        // Not one atomic step: a lost count only shifts the next look.
        uint16_t events = static_cast<uint16_t>(__atomic_load_n(&mesh.events, __ATOMIC_RELAXED) + 1);
        __atomic_store_n(&mesh.events, events, __ATOMIC_RELAXED);
        if (events % kLookEvery == 0 || events <= kLookEvery / 8) {
            audit_if_due(metal, index, allocator, expected);
        }
    }

    // Writes an audit of the mesh, unless more or fewer calls than `expected` are in flight: 1 if the caller's own is,
    // or 0. Returns whether it did.
    bool audit(const Metal& metal, uint16_t index, void* allocator, uint32_t expected);

private:
    static constexpr uint32_t kLookEvery = 32;  // events, before the clock is asked whether an audit is due

    void audit_if_due(const Metal& metal, uint16_t index, void* allocator, uint32_t expected);

    Store& store_;
    Meshes& meshes_;
    const ProcessTraits& traits_;
    const InFlight& in_flight_;
};

}  // namespace ttmem
