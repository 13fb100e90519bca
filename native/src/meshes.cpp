// SPDX-License-Identifier: Apache-2.0
#include "meshes.h"

#include <algorithm>

namespace ttmem {

uint16_t Meshes::look_up(void* allocator) noexcept {
    const uint32_t* found = allocators_.find(key_of(allocator));
    if (found == nullptr) {
        return kNoMesh;
    }
    last_allocator_ = allocator;
    __atomic_store_n(&last_found_, static_cast<uint16_t>(*found), __ATOMIC_RELAXED);
    return last_found_;
}

uint16_t Meshes::with_device(void* device) const noexcept {
    for (size_t i = open_.size(); i-- > 0;) {
        if (open_[i].device == device && open_[i].allocator != nullptr) {
            return static_cast<uint16_t>(i);
        }
    }
    return kNoMesh;
}

uint16_t Meshes::add(NewMesh&& mesh) {
    void* allocator = mesh.own.allocator;
    uint16_t found = with_allocator(allocator);
    if (found != kNoMesh) {
        return found;
    }
    uint16_t index = free_index();
    if (index == kNoMesh) {
        store_.header()->meshes_full++;
        return index;
    }
    mesh.shared.parent = index;
    mesh.shared.chips = store_.blob(mesh.own.chips.data(), static_cast<uint32_t>(mesh.own.chips.size() * 2));
    mesh.shared.cores = store_.core_set(mesh.own.grid);
    if (!allocators_.insert(key_of(allocator), index)) {
        return kNoMesh;
    }
    ignored_.erase(key_of(allocator));
    uint64_t earlier = 0;
    for (uint64_t bytes : mesh.own.earlier_reserved) {
        earlier += bytes;
    }
    set(index, mesh.shared, std::move(mesh.own), earlier);
    return index;
}

// A new index, or if there are no more, the next one of a mesh that is closed.
uint16_t Meshes::free_index() const noexcept {
    if (open_.size() < kMeshes) {
        return static_cast<uint16_t>(open_.size());
    }
    for (uint32_t step = 1; step <= kMeshes; step++) {
        uint16_t index = static_cast<uint16_t>((last_set_ + step) % kMeshes);
        if (store_.meshes()[index].state == kMeshClosed) {
            return index;
        }
    }
    return kNoMesh;
}

// `earlier` is the bytes in its banks from before the agent could see.
void Meshes::set(uint16_t index, const Mesh& shared, OpenMesh&& own, uint64_t earlier) {
    store_.metering.set_mesh(index, shared, own.chips);
    if (index == open_.size()) {
        open_.push_back(std::move(own));
    } else {
        open_[index] = std::move(own);
    }
    if (open_[index].allocator != nullptr) {
        find_neighbours(index);
    }
    last_set_ = index;
    Mesh& there = store_.meshes()[index];
    uint32_t turn = __atomic_add_fetch(&there.turn, 1, __ATOMIC_ACQ_REL);
    there = shared;
    there.turn = turn;
    there.opened = store_.header()->head + 1;
    __atomic_add_fetch(&there.turn, 1, __ATOMIC_ACQ_REL);
    const uint32_t description = describe(shared);
    Header* header = store_.header();
    header->meshes_used = header->meshes_used > index ? header->meshes_used : index + 1u;
    store_.append(Event::kOpened, [&](Record& r) {
        r.mesh = index;
        r.name = description;
        r.size = earlier;
    });
}

// A blob with the row of a mesh, for readers that come to its record when the row is a later mesh's. It has nothing
// that is different each time: a mesh that is opened again and again has one description.
uint32_t Meshes::describe(const Mesh& shared) noexcept {
    Mesh mesh = shared;
    mesh.turn = 0;
    mesh.mesh_id = shared.mesh_id == kNoMeshId ? kNoMeshId : 0;
    mesh.buffers_ours = mesh.buffers_theirs = mesh.audits = mesh.mismatches = mesh.audited = mesh.opened = 0;
    for (Bank& bank : mesh.banks) {
        bank.ours = bank.theirs = bank.largest_free = 0;
    }
    return store_.blob(&mesh, offsetof(Mesh, spare));
}

// Two meshes with allocators of their own may have the same chips, and then their programs take turns there.
void Meshes::find_neighbours(uint16_t index) noexcept {
    const std::vector<uint16_t>& chips = open_[index].chips;
    open_[index].neighbours = index;
    open_[index].workload = open_[index].workload_before = 0;
    for (size_t i = 0; i < open_.size(); i++) {
        const OpenMesh& other = open_[i];
        bool shares =
            i != index && other.allocator != nullptr &&
            std::find_first_of(chips.begin(), chips.end(), other.chips.begin(), other.chips.end()) != chips.end();
        const uint16_t theirs = open_[i].neighbours, ours = open_[index].neighbours;
        if (shares && theirs != ours) {
            for (size_t mesh = 0; mesh < open_.size(); mesh++) {
                open_[mesh].neighbours = open_[mesh].neighbours == theirs ? ours : open_[mesh].neighbours;
            }
        }
    }
}

uint16_t Meshes::submesh(uint16_t parent, const uint32_t range[4]) {
    const OpenMesh& mesh = open_[parent];
    if (uint64_t{mesh.rows} * mesh.columns != mesh.chips.size() || range[2] >= mesh.rows || range[3] >= mesh.columns) {
        return parent;  // a mesh over several hosts: which of its chips are on this one is not known
    }
    std::vector<uint16_t> chips;
    for (uint32_t row = range[0]; row <= range[2]; row++) {
        for (uint32_t column = range[1]; column <= range[3]; column++) {
            chips.push_back(mesh.chips[row * mesh.columns + column]);
        }
    }
    if (chips.size() == mesh.chips.size()) {
        return parent;
    }
    uint32_t blob = store_.blob(chips.data(), static_cast<uint32_t>(chips.size() * 2));
    for (size_t i = 0; i < open_.size(); i++) {
        const Mesh& other = store_.meshes()[i];
        if (other.parent == parent && other.chips == blob && other.state == kMeshOpen) {
            return static_cast<uint16_t>(i);
        }
    }
    uint16_t index = free_index();
    if (index == kNoMesh || blob == 0) {
        return parent;
    }
    Mesh shared = store_.meshes()[parent];
    shared.chips = blob;
    shared.chip_count = static_cast<uint32_t>(chips.size());
    OpenMesh own{};
    own.grid = mesh.grid;
    own.chips = std::move(chips);
    set(index, shared, std::move(own), 0);
    return index;
}

void Meshes::close(uint16_t index) {
    store_.append(Event::kClosed, [&](Record& r) { r.mesh = index; });
    for (size_t i = 0; i < open_.size(); i++) {
        Mesh& shared = store_.meshes()[i];
        if (shared.state != kMeshOpen || (i != index && shared.parent != index)) {
            continue;
        }
        shared.state = kMeshClosed;
        if (open_[i].allocator != nullptr) {
            allocators_.erase(key_of(open_[i].allocator));
            ignore(open_[i].allocator);
            last_allocator_ = nullptr;
        }
        open_[i].allocator = open_[i].device = nullptr;
    }
}

}  // namespace ttmem
