// SPDX-License-Identifier: Apache-2.0
#include "audits.h"

#include "arithmetic.h"
#include "metal_objects.h"

namespace ttmem {

namespace {

constexpr uint64_t kAuditEvery = 100'000'000;  // nanoseconds

}  // namespace

void Audits::audit_if_due(const Metal& metal, uint16_t index, void* allocator, uint32_t expected) {
    OpenMesh& mesh = meshes_[index];
    uint64_t now = monotonic_time();
    if (now >= __atomic_load_n(&mesh.next_audit, __ATOMIC_RELAXED) && audit(metal, index, allocator, expected)) {
        __atomic_store_n(&mesh.next_audit, now + kAuditEvery, __ATOMIC_RELAXED);
    }
}

bool Audits::audit(const Metal& metal, uint16_t index, void* allocator, uint32_t expected) {
    Mesh& shared = store_.meshes()[index];
    const bool mirrored = mirrors_its_mesh(shared, traits_);
    // Meaningful only while no other thread is between the allocator and the table.
    if (in_flight_.count() != expected || !metal.has(kCall_statistics)) {
        return false;
    }
    uint64_t head = __atomic_load_n(&store_.header()->head, __ATOMIC_ACQUIRE);
    uint64_t count = metal.has(kCall_num_buffers) ? metal.call<uint64_t>(kCall_num_buffers, allocator) : 0;
    Statistics statistics[kBufferTypes] = {};
    for (int type : kBankedTypes) {
        if (shared.banks[type].banks > 0 && !mirrored) {
            statistics[type] = metal.call<Statistics>(kCall_statistics, allocator, &type);
        }
    }
    Locked held(store_.lock);
    const OpenMesh& own = meshes_[index];
    if (store_.header()->head != head || in_flight_.count() != expected || own.allocator != allocator) {
        return false;
    }
    __atomic_add_fetch(&shared.turn, 1, __ATOMIC_ACQ_REL);
    shared.buffers_ours = own.buffers;
    shared.buffers_theirs = subtract(count, own.earlier_buffers);
    if (!mirrored) {  // otherwise only the numbers of buffers can be compared
        bool equal = true;
        for (int type : kBankedTypes) {
            Bank& bank = shared.banks[type];
            bank.ours = own.reserved[type];
            bank.theirs = subtract(statistics[type].allocated, own.earlier_reserved[type]);
            bank.largest_free = statistics[type].largest_free;
            equal = equal && bank.ours == bank.theirs;
        }
        shared.audits++;
        shared.mismatches += !equal;
    }
    shared.audited = monotonic_time();
    __atomic_add_fetch(&shared.turn, 1, __ATOMIC_ACQ_REL);
    return true;
}

}  // namespace ttmem
