// SPDX-License-Identifier: Apache-2.0
// ttmem::Store: slots and their reuse, blobs, and behaviour when either is full.
#include "store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

using ttmem::Cores;
using ttmem::Event;
using ttmem::Kind;
using ttmem::kNoSlot;
using ttmem::Record;
using ttmem::Store;

namespace {

// Each test has its own store, with its own mapped memory.
struct Made : Store {
    Made() { CHECK(create(static_cast<uint32_t>(getpid()))); }
    ~Made() { destroy(); }
    uint32_t put(uint64_t address) {
        return allocate([&](Record& r) {
            r.kind = Kind::kL1;
            r.address = address;
        });
    }
};

void starts_sealed_and_described() {
    Made store;
    const ttmem::Header* header = store.header();
    CHECK(store.fd() >= 0);
    CHECK((fcntl(store.fd(), F_GET_SEALS) & F_SEAL_SHRINK) != 0);
    CHECK((fcntl(store.fd(), F_GETFD) & FD_CLOEXEC) != 0);
    struct stat info;
    CHECK(fstat(store.fd(), &info) == 0 && static_cast<uint64_t>(info.st_size) == header->total);
    CHECK(ftruncate(store.fd(), 4096) != 0);
    CHECK(header->magic == ttmem::kMagic && header->version == ttmem::kVersion && header->head == 0);
    CHECK(header->pid == static_cast<uint32_t>(getpid()));
    CHECK(header->table_high == 0 && header->meshes_used == 0 && header->chips_used == 0);
}

void slots_are_used_again() {
    Made store;
    CHECK(store.put(1) == 0 && store.put(2) == 1 && store.put(3) == 2);
    CHECK(store.header()->table_high == 3);
    store.free(1, ttmem::kWholesale);
    CHECK(store.table()[1].sequence == 0);
    const Record& freed = store.ring()[store.header()->head];
    CHECK(freed.event == Event::kFreed && freed.slot == 1 && freed.address == 2 && freed.flags == ttmem::kWholesale);
    CHECK(store.put(4) == 1 && store.put(5) == 3);
    CHECK(store.table()[1].address == 4 && store.table()[1].sequence == 5);
    store.forget(0);
    CHECK(store.header()->head == 6);  // no record of its own
    CHECK(store.put(6) == 0);
}

void a_slot_taken_is_part_of_the_table_once_kept() {
    Made store;
    uint32_t slot = store.take_slot();
    CHECK(slot == 0 && store.header()->table_high == 0);
    const Record& record = store.append(Event::kProgram, [&](Record& r) { r.slot = slot; });
    store.keep(slot, record);
    CHECK(store.header()->table_high == 1 && store.table()[0].event == Event::kProgram);
    store.keep(kNoSlot, record);  // an allocation without a slot
    CHECK(store.header()->table_high == 1);
}

void records_are_numbered_and_stamped() {
    Made store;
    uint64_t before = ttmem::monotonic_time();
    for (uint64_t i = 1; i <= 5; i++) {
        const Record& record = store.append(Event::kOpened, [](Record& r) { r.sequence = r.time = 99; });
        CHECK(record.sequence == i && record.time >= before && record.thread == Store::thread_id());
        CHECK(record.slot == kNoSlot && record.layout == 255 && store.header()->head == i);
        CHECK(&record == &store.ring()[i]);
    }
}

void the_ring_goes_round() {
    Made store;
    for (uint64_t i = 1; i <= 3 * uint64_t{ttmem::kRingSlots} / 2; i++) {
        store.append(Event::kOpened, [&](Record& r) { r.address = i; });
    }
    uint64_t head = store.header()->head;
    CHECK(head == 3 * uint64_t{ttmem::kRingSlots} / 2);
    for (uint64_t i = head - ttmem::kRingSlots + 1; i <= head; i++) {
        const Record& record = store.ring()[i % ttmem::kRingSlots];
        CHECK(record.sequence == i && record.address == i);
    }
}

void a_full_table_is_counted() {
    Made store;
    for (uint32_t i = 0; i < ttmem::kTableSlots; i++) {
        CHECK(store.put(i) == i);
    }
    CHECK(store.put(1) == kNoSlot && store.put(2) == kNoSlot);
    CHECK(store.header()->table_full == 2 && store.header()->table_high == ttmem::kTableSlots);
    const Record& last = store.ring()[store.header()->head % ttmem::kRingSlots];
    // An allocation without a slot has no record either, because its free could not be reported.
    CHECK(last.event == Event::kAllocated && last.slot == ttmem::kTableSlots - 1);
    store.free(77, 0);
    CHECK(store.put(3) == 77);
    for (uint32_t i = 0; i < ttmem::kTableSlots; i++) {  // every slot can be freed: the free list is long enough
        store.free(i, 0);
    }
    std::set<uint32_t> again;
    for (uint32_t i = 0; i < ttmem::kTableSlots; i++) {
        again.insert(store.put(i));
    }
    CHECK(again.size() == ttmem::kTableSlots && *again.rbegin() == ttmem::kTableSlots - 1);
}

std::string blob_at(const Store& store, uint32_t number) {
    const char* at = reinterpret_cast<const char*>(store.header()) + store.header()->blobs_at + number;
    uint32_t length;
    std::memcpy(&length, at, 4);
    return std::string(at + 4, length);
}

void blobs_are_kept_once() {
    Made store;
    CHECK(store.text("") == 0 && store.blob("x", 0) == 0);
    uint32_t one = store.text("ttnn.add"), two = store.text("ttnn.relu");
    CHECK(one != 0 && two != 0 && one != two && one % 8 == 0 && two % 8 == 0);
    CHECK(store.text("ttnn.add") == one && store.text("ttnn.relu") == two);
    CHECK(blob_at(store, one) == "ttnn.add" && blob_at(store, two) == "ttnn.relu");
    CHECK(store.blob("ttnn.add\0", 9) != one);
    std::string longest(4096, 'a'), longer(5000, 'a');
    uint32_t cut = store.text(longer.c_str());
    CHECK(blob_at(store, cut) == longest && store.text(longest.c_str()) == cut);
    std::mt19937 random(1);
    std::map<std::string, uint32_t> model;
    for (int i = 0; i < 20000; i++) {
        std::string text = std::to_string(random() % 3000);
        uint32_t number = store.text(text.c_str());
        CHECK(number != 0 && blob_at(store, number) == text);
        CHECK(model.emplace(text, number).first->second == number);
    }
    CHECK(store.header()->blobs_full == 0);
}

void full_blobs_are_counted() {
    Made store;
    std::string text(4000, 'x');
    uint32_t made = 0, first = 0;
    for (uint32_t i = 0; i < 9000; i++) {
        std::memcpy(&text[0], &i, 4);
        uint32_t number = store.blob(text.data(), static_cast<uint32_t>(text.size()));
        made += number != 0;
        first = i == 0 ? number : first;
        CHECK(number == 0 || number + 4 + text.size() <= ttmem::kBlobBytes);
    }
    CHECK(made == (ttmem::kBlobBytes - 8) / 4008);
    CHECK(store.header()->blobs_full == 9000 - made && store.header()->blobs_used <= ttmem::kBlobBytes);
    uint32_t zero = 0;
    std::memcpy(&text[0], &zero, 4);
    CHECK(store.blob(text.data(), static_cast<uint32_t>(text.size())) == first);  // existing blobs are still found
}

void core_sets() {
    Made store;
    Cores cores;
    CHECK(cores.count() == 0 && cores.height() == 0 && store.core_set(cores) == 0);
    const uint64_t range[4] = {1, 2, 3, 5};
    cores.add_range(range);
    CHECK(cores.count() == 12 && cores.height() == 6 && cores.rows[2] == 0b1110 && cores.rows[1] == 0);
    CHECK(blob_at(store, store.core_set(cores)).size() == 48);
    const uint64_t wide[4] = {60, 30, 1000, 1000};  // cores that do not fit are left out
    Cores far;
    far.add_range(wide);
    CHECK(far.count() == 8 && far.height() == 32);
    far.add(64, 0);
    far.add(0, 32);
    CHECK(far.count() == 8);
    far.merge(cores);
    CHECK(far.count() == 20 && !(far == cores));
}

// As when all descriptors are in use: private memory at first, moved into a file later, with its content.
void publishes_later() {
    rlimit before, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = {0, before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    Made store;
    CHECK(store.fd() == -1 && !store.publish());
    for (uint64_t i = 0; i < 1000; i++) {
        store.put(i);
    }
    uint32_t name = store.text("a name");
    store.meshes()[3].mesh_id = 17;
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    std::thread writer([&] {
        for (uint64_t i = 1000; i < 100000; i++) {
            ttmem::Locked held(store.lock);
            store.free(store.put(i), 0);
        }
    });
    CHECK(store.publish() && store.publish() && store.fd() >= 0);
    writer.join();
    uint64_t total = store.header()->total;
    void* seen = mmap(nullptr, total, PROT_READ, MAP_SHARED, store.fd(), 0);
    CHECK(seen != MAP_FAILED);
    CHECK(std::memcmp(seen, store.header(), total) == 0);
    CHECK(store.header()->head == 1000 + 2 * 99000 && store.header()->table_high == 1001);
    CHECK(store.table()[999].address == 999 && store.meshes()[3].mesh_id == 17 && blob_at(store, name) == "a name");
    munmap(seen, total);
}

void many_threads() {
    Made store;
    constexpr int kThreads = 6, kEach = 4000;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            std::vector<uint32_t> own;
            std::mt19937 random(static_cast<uint32_t>(t));
            for (int i = 0; i < kEach; i++) {
                ttmem::Locked held(store.lock);
                if (own.size() > 50 || (!own.empty() && random() % 2 == 0)) {
                    uint32_t slot = own.back();
                    own.pop_back();
                    CHECK(store.table()[slot].thread == Store::thread_id());
                    store.free(slot, 0);
                } else {
                    own.push_back(store.put(static_cast<uint64_t>(t)));
                    store.text(std::to_string(random() % 100).c_str());
                }
            }
            ttmem::Locked held(store.lock);
            for (uint32_t slot : own) {
                store.free(slot, 0);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (uint32_t slot = 0; slot < store.header()->table_high; slot++) {
        CHECK(store.table()[slot].sequence == 0);
    }
    for (uint64_t i = 1; i <= store.header()->head; i++) {
        CHECK(store.ring()[i % ttmem::kRingSlots].sequence == i);
    }
}

}  // namespace

int main() {
    starts_sealed_and_described();
    slots_are_used_again();
    a_slot_taken_is_part_of_the_table_once_kept();
    records_are_numbered_and_stamped();
    the_ring_goes_round();
    a_full_table_is_counted();
    blobs_are_kept_once();
    full_blobs_are_counted();
    core_sets();
    publishes_later();
    many_threads();
}
