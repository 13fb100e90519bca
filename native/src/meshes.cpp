// SPDX-License-Identifier: Apache-2.0
// The part of the agent that deals with meshes: their allocators and geometry, from opening to closing.
#include <cstring>
#include <unordered_map>

#include "agent.h"

namespace ttmem {

namespace {

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

}  // namespace

uint16_t Agent::find_allocator(void* allocator) noexcept {
    if (allocator == last_allocator_) {  // nearly always
        return last_found_;
    }
    const uint32_t* found = allocators_.find(reinterpret_cast<uint64_t>(allocator));
    if (found == nullptr) {
        return kNoMesh;
    }
    last_allocator_ = allocator;
    last_found_ = static_cast<uint16_t>(*found);
    return last_found_;
}

uint16_t Agent::find_device(void* device) const noexcept {
    for (size_t i = homes_.size(); i-- > 0;) {
        if (homes_[i].device == device && homes_[i].allocator != nullptr) {
            return static_cast<uint16_t>(i);
        }
    }
    return kNoMesh;
}

uint16_t Agent::home_of(const Metal& metal, void* allocator, void* device) {
    {
        Locked held(store.lock);
        uint16_t found = allocator != nullptr ? find_allocator(allocator) : find_device(device);
        if (found != kNoMesh) {
            return found;
        }
    }
    return make_home(metal, allocator, device, nullptr);
}

uint16_t Agent::chip_index(const Metal& metal, void* device) {
    uint32_t number = virtual_call(device, kId);
    uint32_t arch = virtual_call(device, kArch);
    uint64_t unique = 0;
    uint32_t board = kNoBoard, remote = 2;
    bool known = metal.has(kCall_context) && metal.has(kCall_context_exists) && metal.has(kCall_cluster) &&
                 metal.has(kCall_cluster_descriptor) && metal.has(kCall_unique_ids);
    if (known && metal.call<bool>(kCall_context_exists, 0)) {
        void* cluster = metal.call<void*>(kCall_cluster, metal.call<void*>(kCall_context, 0));
        void* descriptor = metal.call<void*>(kCall_cluster_descriptor, cluster);
        const auto& ids = *metal.call<const std::unordered_map<int, uint64_t>*>(kCall_unique_ids, descriptor);
        for (const auto& [chip, id] : ids) {
            unique = static_cast<uint32_t>(chip) == number ? id : unique;
        }
        if (metal.has(kCall_board_type)) {
            board = metal.call<uint32_t>(kCall_board_type, cluster, static_cast<int>(number));
        }
        if (metal.has(kCall_chip_remote)) {
            remote = metal.call<bool>(kCall_chip_remote, descriptor, static_cast<int>(number)) ? 1 : 0;
        }
    }
    Locked held(store.lock);
    Header* header = store.header();
    for (uint32_t i = 0; i < header->chips_used; i++) {
        if (store.chips()[i].number == number) {
            return static_cast<uint16_t>(i);
        }
    }
    if (header->chips_used == kChips) {
        return kNoMesh;
    }
    Chip& chip = store.chips()[header->chips_used];
    chip.unique_id = unique;
    chip.number = number;
    chip.arch = arch;
    chip.board = board;
    chip.remote = remote;
    return static_cast<uint16_t>(header->chips_used++);
}

uint16_t Agent::make_home(const Metal& metal, void* allocator, void* device, const Seen* first) {
    if (device == nullptr) {
        return kNoMesh;
    }
    Home home{};
    home.device = device;
    bool several = is_mesh(metal, device);
    if (allocator == nullptr) {
        Call getter = several ? kCall_mesh_allocator : kCall_chip_allocator;
        void** owner = metal.call<void**>(getter, device);
        allocator = owner == nullptr ? nullptr : *owner;
        if (allocator == nullptr) {
            return kNoMesh;
        }
    }
    home.allocator = allocator;
    uint32_t mesh_id = kNoMeshId;
    home.rows = home.columns = 1;
    if (several) {
        mesh_id = metal.call<uint32_t>(kCall_mesh_id, device);
        for (void* chip : metal.copy_of<std::vector<void*>>(kCall_mesh_devices, device)) {
            home.chips.push_back(chip_index(metal, chip));
        }
        home.columns = static_cast<uint32_t>(home.chips.size());
        if (metal.has(kCall_mesh_rows) && metal.has(kCall_mesh_columns)) {
            home.rows = static_cast<uint32_t>(metal.call<uint64_t>(kCall_mesh_rows, device));
            home.columns = static_cast<uint32_t>(metal.call<uint64_t>(kCall_mesh_columns, device));
        }
    } else {
        home.chips.push_back(chip_index(metal, device));
    }
    Mesh mesh{};
    mesh.state = 1;
    mesh.mesh_id = mesh_id;
    mesh.chip_count = static_cast<uint32_t>(home.chips.size());
    mesh.arch = virtual_call(device, kArch);
    home.unit = metal.call<uint32_t>(kCall_alignment, allocator, 0u);
    for (int type : kTypes) {
        Bank& bank = mesh.banks[type];
        bank.banks = metal.call<uint32_t>(kCall_num_banks, allocator, &type);
        bank.size = bank.banks == 0 ? 0 : metal.call<uint64_t>(kCall_bank_size, allocator, &type);
        bank.unit = home.unit;
    }
    uint8_t l1 = 0, dram = 1;  // HalMemType
    mesh.l1_base = metal.call<uint64_t>(kCall_base_address, allocator, &l1);
    mesh.dram_base = metal.call<uint64_t>(kCall_base_address, allocator, &dram);
    mesh.l1_size = mesh.l1_base + mesh.banks[1].size + mesh.banks[3].size;
    if (metal.has(kCall_max_unreserved) && mesh.l1_size > 0) {
        uint64_t unreserved = metal.call<uint32_t>(kCall_max_unreserved);
        mesh.map_end = unreserved < mesh.l1_size ? mesh.l1_size - unreserved : 0;
    }
    home.grid = cores_with_banks(metal, allocator, mesh.banks[1].banks);
    count_earlier(metal, mesh, home, first);

    Locked held(store.lock);
    uint16_t found = find_allocator(allocator);
    Header* header = store.header();
    if (found != kNoMesh) {
        return found;
    }
    uint16_t index = free_mesh();
    if (index == kNoMesh) {
        header->meshes_full++;
        return index;
    }
    mesh.parent = index;
    mesh.chips = store.blob(home.chips.data(), static_cast<uint32_t>(home.chips.size() * 2));
    mesh.cores = store.core_set(home.grid);
    if (!allocators_.insert(reinterpret_cast<uint64_t>(allocator), index)) {
        return kNoMesh;
    }
    unfollowed_.erase(reinterpret_cast<uint64_t>(allocator));
    uint64_t before = 0;
    for (uint64_t bytes : home.earlier) {
        before += bytes;
    }
    set_mesh(index, mesh, std::move(home));
    store.append(Event::kOpened, [&](Record& r) {
        r.mesh = index;
        r.size = before;
    });
    return index;
}

// A new mesh, or when there are no more the one that was closed longest ago.
uint16_t Agent::free_mesh() const noexcept {
    if (homes_.size() < kMeshes) {
        return static_cast<uint16_t>(homes_.size());
    }
    for (uint32_t step = 1; step <= kMeshes; step++) {
        uint16_t index = static_cast<uint16_t>((last_mesh_ + step) % kMeshes);
        if (store.meshes()[index].state == 2) {
            return index;
        }
    }
    return kNoMesh;
}

void Agent::set_mesh(uint16_t index, const Mesh& mesh, Home&& home) {
    store.metering.settle(index, mesh, home.chips);
    if (index == homes_.size()) {
        homes_.push_back(std::move(home));
    } else {
        homes_[index] = std::move(home);
    }
    last_mesh_ = index;
    Mesh& there = store.meshes()[index];
    uint32_t turn = __atomic_add_fetch(&there.turn, 1, __ATOMIC_ACQ_REL);
    there = mesh;
    there.turn = turn;
    __atomic_add_fetch(&there.turn, 1, __ATOMIC_ACQ_REL);
    Header* header = store.header();
    header->meshes_used = header->meshes_used > index ? header->meshes_used : index + 1u;
}

uint16_t Agent::submesh_of(uint16_t index, const uint32_t range[4]) {
    Home& home = homes_[index];
    if (uint64_t{home.rows} * home.columns != home.chips.size() || range[2] >= home.rows || range[3] >= home.columns) {
        return index;  // a mesh over several hosts: which of its chips are ours is not for us to guess
    }
    std::vector<uint16_t> chips;
    for (uint32_t row = range[0]; row <= range[2]; row++) {
        for (uint32_t column = range[1]; column <= range[3]; column++) {
            chips.push_back(home.chips[row * home.columns + column]);
        }
    }
    if (chips.size() == home.chips.size()) {
        return index;
    }
    uint32_t blob = store.blob(chips.data(), static_cast<uint32_t>(chips.size() * 2));
    for (size_t i = 0; i < homes_.size(); i++) {
        if (store.meshes()[i].parent == index && store.meshes()[i].chips == blob && store.meshes()[i].state == 1) {
            return static_cast<uint16_t>(i);
        }
    }
    uint16_t made = free_mesh();
    if (made == kNoMesh || blob == 0) {
        return index;
    }
    Mesh mesh = store.meshes()[index];
    mesh.chips = blob;
    mesh.chip_count = static_cast<uint32_t>(chips.size());
    Home part{};
    part.grid = home.grid;
    part.chips = std::move(chips);
    set_mesh(made, mesh, std::move(part));
    return made;
}

void Agent::opened(const Metal& metal, void* mesh) {
    if (!metal.has(kCall_mesh_allocator)) {
        return;  // it becomes known with its first buffer
    }
    void** owner = metal.call<void**>(kCall_mesh_allocator, mesh);
    if (owner != nullptr && *owner != nullptr) {
        home_of(metal, *owner, mesh);
    }
}

void Agent::closing(const Metal& metal, void* mesh) {
    uint16_t index;
    void* allocator = nullptr;
    {
        Locked held(store.lock);
        index = find_device(mesh);
        allocator = index == kNoMesh ? nullptr : homes_[index].allocator;
    }
    if (allocator != nullptr) {
        audit(metal, index, allocator, 0);
    }
    Locked held(store.lock);
    if (allocator != nullptr && homes_[index].allocator == allocator) {
        store.append(Event::kClosing, [&](Record& r) { r.mesh = index; });
    }
}

void Agent::closed(const Metal&, void* mesh) noexcept {
    Locked held(store.lock);
    uint16_t index = find_device(mesh);
    if (index != kNoMesh) {
        close_home(index);
    }
}

void Agent::close_home(uint16_t index) {
    free_all(index);
    for (Program& program : pool_) {
        if (program.impl != nullptr && program.has_home && program.home == index) {
            drop(program);
        }
    }
    store.append(Event::kClosed, [&](Record& r) { r.mesh = index; });
    for (size_t i = 0; i < homes_.size(); i++) {
        if (store.meshes()[i].state == 1 && (i == index || store.meshes()[i].parent == index)) {
            store.meshes()[i].state = 2;
            if (homes_[i].allocator != nullptr) {
                uint64_t allocator = reinterpret_cast<uint64_t>(homes_[i].allocator);
                allocators_.erase(allocator);
                unfollowed_.insert_once(allocator, 1);
                last_allocator_ = nullptr;
            }
            homes_[i].allocator = homes_[i].device = nullptr;
        }
    }
}

}  // namespace ttmem
