// SPDX-License-Identifier: Apache-2.0
#include "mesh_description.h"

#include <unordered_map>
#include <vector>

namespace ttmem {

namespace {

constexpr uint16_t kNoChip = 0xffff;

// The cores that have a bank of L1; none if this libtt_metal cannot be asked.
Cores cores_with_banks(const Metal& metal, void* allocator, uint32_t banks) {
    Cores cores;
    if (metal.has(kCall_has_bank)) {
        for (uint64_t y = 0; y < Cores::kRows; y++) {
            for (uint64_t x = 0; x < 32; x++) {
                uint64_t core[2] = {x, y};
                if (metal.call<bool>(kCall_has_bank, allocator, 1u, static_cast<const uint64_t*>(core))) {
                    cores.add(x, y);
                }
            }
        }
    } else if (metal.has(kCall_bank_core)) {  // before 0.78
        struct Pair {
            uint64_t x, y;
        };
        for (uint32_t bank = 0; bank < banks; bank++) {
            Pair core = metal.call<Pair>(kCall_bank_core, allocator, bank);
            if (core.x < 32 && core.y < Cores::kRows) {
                cores.add(core.x, core.y);
            }
        }
    }
    return cores;
}

Chip describe_chip(const Metal& metal, void* device) {
    Chip chip{};
    chip.number = virtual_call(device, kId);
    chip.arch = virtual_call(device, kArch);
    chip.board = kNoBoard;
    chip.remote = 2;
    int number = static_cast<int>(chip.number);
    bool known = metal.has(kCall_context) && metal.has(kCall_context_exists) && metal.has(kCall_cluster) &&
                 metal.has(kCall_cluster_descriptor) && metal.has(kCall_unique_ids);
    if (known && metal.call<bool>(kCall_context_exists, 0)) {
        void* cluster = metal.call<void*>(kCall_cluster, metal.call<void*>(kCall_context, 0));
        void* descriptor = metal.call<void*>(kCall_cluster_descriptor, cluster);
        const auto& ids = *metal.call<const std::unordered_map<int, uint64_t>*>(kCall_unique_ids, descriptor);
        for (const auto& [other, id] : ids) {
            chip.unique_id = other == number ? id : chip.unique_id;
        }
        if (metal.has(kCall_board_type)) {
            chip.board = metal.call<uint32_t>(kCall_board_type, cluster, number);
        }
        if (metal.has(kCall_chip_remote)) {
            chip.remote = metal.call<bool>(kCall_chip_remote, descriptor, number) ? 1 : 0;
        }
    }
    return chip;
}

// The index of a chip in the store, where it is written at its first use. kNoChip if there is no room.
uint16_t chip_index(const Metal& metal, Store& store, void* device) {
    Chip described = describe_chip(metal, device);
    Locked held(store.lock);
    Header* header = store.header();
    for (uint32_t i = 0; i < header->chips_used; i++) {
        if (store.chips()[i].number == described.number) {
            return static_cast<uint16_t>(i);
        }
    }
    if (header->chips_used == kChips) {
        return kNoChip;
    }
    store.chips()[header->chips_used] = described;
    return static_cast<uint16_t>(header->chips_used++);
}

void describe_chips(const Metal& metal, Store& store, void* device, NewMesh& mesh) {
    OpenMesh& own = mesh.own;
    own.rows = own.columns = 1;
    mesh.shared.mesh_id = kNoMeshId;
    if (is_mesh(metal, device)) {
        mesh.shared.mesh_id = metal.call<uint32_t>(kCall_mesh_id, device);
        for (void* chip : metal.copy_of<std::vector<void*>>(kCall_mesh_devices, device)) {
            own.chips.push_back(chip_index(metal, store, chip));
        }
        own.columns = static_cast<uint32_t>(own.chips.size());
        if (metal.has(kCall_mesh_rows) && metal.has(kCall_mesh_columns)) {
            own.rows = static_cast<uint32_t>(metal.call<uint64_t>(kCall_mesh_rows, device));
            own.columns = static_cast<uint32_t>(metal.call<uint64_t>(kCall_mesh_columns, device));
        }
    } else {
        own.chips.push_back(chip_index(metal, store, device));
    }
    mesh.shared.chip_count = static_cast<uint32_t>(own.chips.size());
    mesh.shared.arch = virtual_call(device, kArch);
}

void describe_banks(const Metal& metal, void* allocator, NewMesh& mesh) {
    Mesh& shared = mesh.shared;
    mesh.own.unit = metal.call<uint32_t>(kCall_alignment, allocator, 0u);
    for (int type : kBankedTypes) {
        Bank& bank = shared.banks[type];
        bank.banks = metal.call<uint32_t>(kCall_num_banks, allocator, &type);
        bank.size = bank.banks == 0 ? 0 : metal.call<uint64_t>(kCall_bank_size, allocator, &type);
        bank.unit = mesh.own.unit;
    }
    uint8_t l1 = 0, dram = 1;  // HalMemType
    shared.l1_base = metal.call<uint64_t>(kCall_base_address, allocator, &l1);
    shared.dram_base = metal.call<uint64_t>(kCall_base_address, allocator, &dram);
    shared.l1_size = shared.l1_base + shared.banks[1].size + shared.banks[3].size;
    if (metal.has(kCall_max_unreserved) && shared.l1_size > 0) {
        uint64_t unreserved = metal.call<uint32_t>(kCall_max_unreserved);
        shared.map_end = unreserved < shared.l1_size ? shared.l1_size - unreserved : 0;
    }
    mesh.own.grid = cores_with_banks(metal, allocator, shared.banks[1].banks);
}

}  // namespace

bool describe(const Metal& metal, Store& store, void* allocator, void* device, NewMesh& mesh) {
    if (device == nullptr) {
        return false;
    }
    if (allocator == nullptr) {
        Call getter = is_mesh(metal, device) ? kCall_mesh_allocator : kCall_chip_allocator;
        void** owner = metal.call<void**>(getter, device);
        allocator = owner == nullptr ? nullptr : *owner;
        if (allocator == nullptr) {
            return false;
        }
    }
    mesh.shared.state = kMeshOpen;
    mesh.own.device = device;
    mesh.own.allocator = allocator;
    describe_chips(metal, store, device, mesh);
    describe_banks(metal, allocator, mesh);
    return true;
}

}  // namespace ttmem
