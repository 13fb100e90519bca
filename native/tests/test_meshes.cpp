// SPDX-License-Identifier: Apache-2.0
// ttmem::Meshes: indices, submeshes, closing and opening again.
#include "meshes.h"

#include <unistd.h>

#include <cstring>
#include <vector>

#include "check.h"
#include "store.h"

using ttmem::Event;
using ttmem::kMeshClosed;
using ttmem::kMeshes;
using ttmem::kMeshOpen;
using ttmem::kNoMesh;
using ttmem::Mesh;
using ttmem::Meshes;
using ttmem::Record;
using ttmem::Store;

namespace {

struct Made : Store {
    Made() { CHECK(create(static_cast<uint32_t>(getpid()))); }
    ~Made() { destroy(); }

    const Record& last() const { return ring()[header()->head & (ttmem::kRingSlots - 1)]; }
};

// Only compared, never read.
void* pointer(uint64_t number) { return reinterpret_cast<void*>(0x10000 + 64 * number); }

ttmem::NewMesh described(uint64_t number, uint32_t rows, uint32_t columns) {
    ttmem::NewMesh mesh{};
    mesh.shared.state = kMeshOpen;
    mesh.own.allocator = pointer(number);
    mesh.own.device = pointer(1000 + number);
    mesh.own.rows = rows;
    mesh.own.columns = columns;
    for (uint32_t chip = 0; chip < rows * columns; chip++) {
        mesh.own.chips.push_back(static_cast<uint16_t>(chip));
    }
    mesh.shared.chip_count = rows * columns;
    return mesh;
}

void found_by_allocator_and_device() {
    Made store;
    Meshes meshes(store);
    CHECK(meshes.with_allocator(pointer(1)) == kNoMesh && meshes.with_device(pointer(1001)) == kNoMesh);
    ttmem::NewMesh mesh = described(1, 2, 4);
    mesh.own.earlier_reserved[0] = 40;
    mesh.own.earlier_reserved[4] = 2;
    CHECK(meshes.add(std::move(mesh)) == 0);
    CHECK(store.last().event == Event::kOpened && store.last().mesh == 0 && store.last().size == 42);
    CHECK(meshes.add(described(1, 2, 4)) == 0);  // another thread was faster
    CHECK(store.header()->head == 1 && store.header()->meshes_used == 1);
    CHECK(meshes.add(described(2, 1, 1)) == 1);
    for (int again = 0; again < 2; again++) {
        CHECK(meshes.with_allocator(pointer(1)) == 0 && meshes.with_allocator(pointer(2)) == 1);
        CHECK(meshes.with_device(pointer(1001)) == 0 && meshes.with_device(pointer(1002)) == 1);
    }
    CHECK(store.meshes()[0].parent == 0 && store.meshes()[1].parent == 1);
}

void submeshes() {
    Made store;
    Meshes meshes(store);
    CHECK(meshes.add(described(1, 2, 4)) == 0);
    const uint32_t all[4] = {0, 0, 1, 3}, left[4] = {0, 0, 1, 1}, corner[4] = {1, 3, 1, 3}, outside[4] = {0, 0, 2, 1};
    CHECK(meshes.submesh(0, all) == 0 && meshes.submesh(0, outside) == 0);
    CHECK(meshes.submesh(0, left) == 1 && meshes.submesh(0, corner) == 2);
    CHECK(meshes.submesh(0, left) == 1 && meshes.submesh(0, corner) == 2);  // the same again
    CHECK((meshes[1].chips == std::vector<uint16_t>{0, 1, 4, 5}) && meshes[2].chips == std::vector<uint16_t>{7});
    CHECK(store.meshes()[1].parent == 0 && store.meshes()[1].chip_count == 4);
    CHECK(meshes.with_device(pointer(1001)) == 0 && meshes[1].allocator == nullptr);
    // Each has a record, so that a reader of records alone knows since when the index means this submesh.
    CHECK(store.header()->head == 3 && store.last().event == Event::kOpened && store.last().mesh == 2);
    CHECK(store.meshes()[0].opened == 1 && store.meshes()[1].opened == 2 && store.meshes()[2].opened == 3);

    ttmem::NewMesh partly = described(2, 2, 4);  // over several hosts: not all of its chips are here
    partly.own.chips.resize(4);
    CHECK(meshes.add(std::move(partly)) == 3 && meshes.submesh(3, left) == 3);
}

void closing_takes_the_submeshes_along() {
    Made store;
    Meshes meshes(store);
    const uint32_t first[4] = {0, 0, 0, 0};
    CHECK(meshes.add(described(1, 1, 2)) == 0 && meshes.add(described(2, 1, 2)) == 1);
    CHECK(meshes.submesh(0, first) == 2 && meshes.submesh(1, first) == 3);
    meshes.close(0);
    CHECK(store.last().event == Event::kClosed && store.last().mesh == 0);
    CHECK(store.meshes()[0].state == kMeshClosed && store.meshes()[2].state == kMeshClosed);
    CHECK(store.meshes()[1].state == kMeshOpen && store.meshes()[3].state == kMeshOpen);
    CHECK(meshes.with_allocator(pointer(1)) == kNoMesh && meshes.with_device(pointer(1001)) == kNoMesh);
    CHECK(meshes.is_ignored(pointer(1)) && !meshes.is_ignored(pointer(2)) && !meshes.is_ignored(pointer(3)));
    CHECK(meshes.add(described(1, 1, 2)) == 4 && !meshes.is_ignored(pointer(1)));  // a new one where the old one was
    CHECK(meshes.submesh(4, first) == 5);
}

void indices_are_used_again_when_there_are_no_more() {
    Made store;
    Meshes meshes(store);
    for (uint32_t i = 0; i < kMeshes; i++) {
        CHECK(meshes.add(described(i, 1, 1)) == i);
    }
    const ttmem::OpenMesh* before = &meshes[7];
    CHECK(meshes.add(described(kMeshes, 1, 1)) == kNoMesh && store.header()->meshes_full == 1);
    meshes.close(9);
    meshes.close(7);
    CHECK(meshes.add(described(kMeshes + 1, 1, 1)) == 7 && meshes.add(described(kMeshes + 2, 1, 1)) == 9);
    CHECK(meshes.with_allocator(pointer(kMeshes + 1)) == 7 && &meshes[7] == before);
    CHECK(meshes.add(described(kMeshes + 3, 1, 1)) == kNoMesh && store.header()->meshes_used == kMeshes);
    CHECK(store.meshes()[7].turn % 2 == 0);
    CHECK(store.meshes()[9].opened == store.header()->head && store.meshes()[7].opened == store.header()->head - 1);
}

// What a record of an opening says of the mesh.
Mesh description(Store& store, const Record& record) {
    const char* blob = reinterpret_cast<const char*>(store.header()) + store.header()->blobs_at + record.name;
    uint32_t length;
    std::memcpy(&length, blob, 4);
    CHECK(length == offsetof(Mesh, spare));
    Mesh mesh{};
    std::memcpy(static_cast<void*>(&mesh), blob + 4, length);
    return mesh;
}

void an_opening_describes_its_mesh() {
    Made store;
    Meshes meshes(store);
    ttmem::NewMesh mesh = described(1, 1, 2);
    mesh.shared.mesh_id = 70;
    mesh.shared.l1_size = 1499136;
    mesh.shared.map_end = 35168;
    mesh.shared.banks[1] = {1360544, 0, 0, 0, 64, 32};
    CHECK(meshes.add(std::move(mesh)) == 0);
    Mesh expected = store.meshes()[0];
    expected.turn = expected.mesh_id = expected.opened = 0;
    Mesh found = description(store, store.last());
    CHECK(std::memcmp(&found, &expected, sizeof(Mesh)) == 0 && found.chips != 0);

    // A submesh has the row of its parent, which was audited meanwhile, and other chips.
    Mesh& row = store.meshes()[0];
    row.audits = row.audited = row.buffers_ours = row.buffers_theirs = row.mismatches = 3;
    row.banks[1].ours = row.banks[1].theirs = row.banks[1].largest_free = 3;
    const uint32_t first[4] = {0, 0, 0, 0};
    CHECK(meshes.submesh(0, first) == 1);
    found = description(store, store.last());
    CHECK(found.chips != expected.chips && found.chip_count == 1);
    found.chips = expected.chips;
    found.chip_count = expected.chip_count;
    CHECK(std::memcmp(&found, &expected, sizeof(Mesh)) == 0);

    ttmem::NewMesh chip = described(2, 1, 1);
    chip.shared.mesh_id = ttmem::kNoMeshId;
    CHECK(meshes.add(std::move(chip)) == 2 && description(store, store.last()).mesh_id == ttmem::kNoMeshId);
}

// Like a test suite that opens a device for each of its tests.
void descriptions_are_written_once() {
    Made store;
    Meshes meshes(store);
    uint32_t used = 0;
    for (uint32_t i = 0; i < 3 * kMeshes; i++) {
        ttmem::NewMesh mesh = described(i, 1, 1);
        mesh.shared.mesh_id = i;
        meshes.close(meshes.add(std::move(mesh)));
        used = i < kMeshes ? store.header()->blobs_used : used;
    }
    CHECK(store.header()->blobs_used == used && store.meshes()[5].mesh_id == 5 + 2 * kMeshes);
}

void a_launch_that_changes_nothing() {
    Made store;
    Meshes meshes(store);
    ttmem::NewMesh part = described(2, 1, 1), other = described(3, 1, 1);
    other.own.chips = {9};
    CHECK(meshes.add(described(1, 2, 4)) == 0 && meshes.add(std::move(part)) == 1);
    CHECK(meshes.add(std::move(other)) == 2);
    CHECK(meshes.launched(0, 5) && !meshes.launched(0, 5));
    CHECK(meshes.launched(0, 6) && meshes.launched(0, 5) && !meshes.launched(0, 5));
    CHECK(meshes.launched(2, 7) && !meshes.launched(0, 5));  // on other chips
    CHECK(meshes.launched(1, 8) && meshes.launched(0, 5));   // on one of its chips
    CHECK(meshes.launched(1, 8) && !meshes.launched(1, 8));
    meshes.close(1);
    CHECK(meshes.launched(0, 5) && !meshes.launched(0, 5));
    meshes.forget_launch(0, 6);
    CHECK(!meshes.launched(0, 5));
    meshes.forget_launch(0, 5);
    CHECK(meshes.launched(0, 5));
    ttmem::NewMesh both = described(4, 2, 5);  // has chips of meshes 0 and 2: their launches count for all
    CHECK(meshes.add(std::move(both)) == 3 && meshes.launched(3, 9));
    CHECK(meshes.launched(0, 5) && meshes.launched(2, 7) && meshes.launched(0, 5));
}

// The room between programs and buffers is what readers look at when a workload is launched.
void a_launch_beside_a_lower_buffer() {
    Made store;
    Meshes meshes(store);
    CHECK(meshes.add(described(1, 1, 1)) == 0);
    meshes.allocated_l1(0, 1000);
    CHECK(meshes.launched(0, 5) && !meshes.launched(0, 5));
    meshes.allocated_l1(0, 2000);  // that it is higher than another one is not known here
    CHECK(meshes.launched(0, 5) && !meshes.launched(0, 5));
    meshes.allocated_l1(0, 2000);
    meshes.allocated_l1(0, 3000);
    CHECK(!meshes.launched(0, 5));
    meshes.allocated_l1(0, 1999);
    CHECK(meshes.launched(0, 5) && !meshes.launched(0, 5));
    CHECK(meshes.launched(0, 6));
    meshes.allocated_l1(0, 3000);  // lower than none that the other workload ran beside
    CHECK(meshes.launched(0, 6) && !meshes.launched(0, 6));
}

}  // namespace

int main() {
    found_by_allocator_and_device();
    submeshes();
    closing_takes_the_submeshes_along();
    indices_are_used_again_when_there_are_no_more();
    an_opening_describes_its_mesh();
    descriptions_are_written_once();
    a_launch_that_changes_nothing();
    a_launch_beside_a_lower_buffer();
    return 0;
}
