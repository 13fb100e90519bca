// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <cstring>

#include "arithmetic.h"
#include "operations.h"

namespace ttmem {

namespace {

uint64_t key_of(uint16_t mesh, Kind kind, uint64_t address) {
    return uint64_t{mesh} << 48 | uint64_t{static_cast<uint8_t>(kind)} << 45 | (address & ((1ull << 45) - 1));
}

}  // namespace

void Buffers::count_earlier(const Metal& metal, NewMesh& mesh, const NewBuffer* first, bool quiet) {
    // With another thread between allocator and table nobody can tell what is from before.
    if (!metal.has(kCall_num_buffers) || !metal.has(kCall_statistics) || (!quiet && !traits_.forked)) {
        return;
    }
    OpenMesh& own = mesh.own;
    own.earlier_buffers = subtract(metal.call<uint64_t>(kCall_num_buffers, own.allocator), first == nullptr ? 0 : 1);
    if (own.earlier_buffers == 0) {
        return;
    }
    any_earlier_.store(true, std::memory_order_relaxed);
    for (int type : kBankedTypes) {
        if (mesh.shared.banks[type].banks > 0 && !mirrors_its_mesh(mesh.shared, traits_)) {
            own.earlier_reserved[type] = metal.call<Statistics>(kCall_statistics, own.allocator, &type).allocated;
        }
    }
    if (first != nullptr) {
        uint64_t& bytes = own.earlier_reserved[static_cast<uint8_t>(first->kind)];
        bytes = subtract(bytes, round_up(first->per_bank, own.unit));
    }
}

void Buffers::add(uint16_t index, const NewBuffer& buffer) noexcept {
    OpenMesh& mesh = meshes_[index];
    bool per_core = __builtin_expect((buffer.flags & kPerCore) != 0, 0);
    if (per_core) {
        any_per_core_.store(true, std::memory_order_relaxed);
    }
    Map& slots = per_core ? objects_ : addresses_;
    uint64_t key = per_core ? buffer.object : key_of(index, buffer.kind, buffer.address);
    bool added;
    uint32_t* slot_of = slots.find_or_add(key, added);
    if (__builtin_expect(!added && slot_of != nullptr, 0)) {  // its free was missed
        free_slot(*slot_of, 0);
        store_.header()->replaced++;
        slot_of = slots.find_or_add(key, added);
    }
    uint64_t reserved = round_up(buffer.per_bank, mesh.unit);
    uint32_t slot = store_.allocate([&](Record& r) {
        r.kind = buffer.kind;
        r.layout = buffer.layout;
        r.flags = buffer.flags;
        r.address = buffer.address;
        r.size = buffer.size;
        r.per_bank = static_cast<uint32_t>(reserved);
        r.mesh = index;
        r.core_count = buffer.cores;
        r.name = operation(store_);
    });
    if (__builtin_expect(slot_of != nullptr, 1)) {
        *slot_of = slot;
    }
    if (__builtin_expect(slot == kNoSlot, 0)) {
        slots.erase(key);
    } else {
        if (per_core) {
            objects_of_slots_[slot] = buffer.object;
        }
        made(slot, store_.table()[slot]);
        mesh.reserved[static_cast<uint8_t>(buffer.kind)] += reserved;
        mesh.buffers++;
        if (buffer.kind == Kind::kL1) {
            meshes_.allocated_l1(index, buffer.address);
        }
    }
}

bool Buffers::remove(uint16_t index, void* allocator, const OldBuffer& buffer) noexcept {
    if (__builtin_expect(buffer.per_core, 0)) {
        if (const uint32_t* slot = objects_.find(buffer.object)) {
            free_slot(*slot, 0);
            return true;
        }
    } else if (index != kNoMesh && buffer.type < kBufferTypes) {
        uint64_t key = key_of(index, static_cast<Kind>(buffer.type), buffer.address);
        if (uint32_t* found = addresses_.find(key)) {
            uint32_t slot = *found;
            OpenMesh& mesh = meshes_[index];
            mesh.reserved[buffer.type] -= store_.table()[slot].per_bank;
            mesh.buffers--;
            addresses_.erase_found(found);
            store_.free(slot, 0);
            return true;
        }
    }
    count_unknown(index, allocator, buffer);
    return false;
}

// A buffer is freed that is not in the table.
void Buffers::count_unknown(uint16_t index, void* allocator, const OldBuffer& buffer) noexcept {
    bool earlier = traits_.forked;
    if (index == kNoMesh) {
        earlier = earlier || !meshes_.is_ignored(allocator);
    } else if (buffer.type < kBufferTypes) {
        OpenMesh& mesh = meshes_[index];
        earlier = earlier || mesh.earlier_buffers > 0;
        uint64_t& bytes = mesh.earlier_reserved[buffer.type];
        bytes = subtract(bytes, round_up(buffer.per_bank, mesh.unit));
        mesh.earlier_buffers = subtract(mesh.earlier_buffers, 1);
    }
    (earlier ? store_.header()->earlier_frees : store_.header()->unknown_frees)++;
}

void Buffers::free_slot(uint32_t slot, uint8_t flags) noexcept {
    const Record& buffer = store_.table()[slot];
    OpenMesh& mesh = meshes_[buffer.mesh];
    mesh.reserved[static_cast<uint8_t>(buffer.kind)] -= buffer.per_bank;
    mesh.buffers--;
    if ((buffer.flags & kPerCore) != 0) {
        objects_.erase(objects_of_slots_[slot]);
    } else {
        addresses_.erase(key_of(buffer.mesh, buffer.kind, buffer.address));
    }
    store_.free(slot, flags);
}

void Buffers::remove_all(uint16_t index) noexcept {
    const Record* table = store_.table();
    for (uint32_t slot = 0; slot < store_.header()->table_high; slot++) {
        const Record& live = table[slot];
        if (live.sequence != 0 && live.mesh == index && static_cast<uint8_t>(live.kind) < kBufferTypes) {
            free_slot(slot, kWholesale);
        }
    }
    std::memset(meshes_[index].earlier_reserved, 0, sizeof(OpenMesh::earlier_reserved));
}

}  // namespace ttmem
