// SPDX-License-Identifier: Apache-2.0
#include "agent.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "connect.h"
#include "operations.h"
#include "phases.h"

namespace ttmem {

std::atomic<bool> paused{false};

namespace {

constexpr uint64_t kAuditEvery = 100'000'000;  // nanoseconds
constexpr uint32_t kLookEvery = 32;            // events, before the clock is asked whether an audit is due

uint64_t key_of(uint16_t mesh, Kind kind, uint64_t address) {
    return uint64_t{mesh} << 48 | uint64_t{static_cast<uint8_t>(kind)} << 45 | (address & ((1ull << 45) - 1));
}

uint64_t less(uint64_t value, uint64_t part) { return value > part ? value - part : 0; }

uint64_t round_up(uint64_t value, uint64_t unit) { return unit == 0 ? value : (value + unit - 1) / unit * unit; }

std::atomic<uint32_t> starter{0};  // pid of the process one of whose threads is starting an agent
std::atomic<bool> off{false};

}  // namespace

// -- coming to life -------------------------------------------------------------------------------------------------

Agent* start(const Metal& metal) noexcept {
    uint32_t pid = static_cast<uint32_t>(getpid());
    for (;;) {
        uint32_t other = starter.load();
        if (other == pid) {  // another thread of ours is at it
            sched_yield();
        } else if (starter.compare_exchange_weak(other, pid)) {
            break;
        }
        Agent::Guard* page = Agent::guard_.load();
        if (page != nullptr && page->agent.load() != nullptr) {
            return page->agent.load();
        }
    }
    Agent::Guard* page = Agent::guard_.load();
    Agent* agent = page != nullptr ? page->agent.load() : nullptr;
    off = Agent::is_off();
    if (agent == nullptr && !off) {
        bool forked = page != nullptr;
        if (page == nullptr) {
            void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory != MAP_FAILED && madvise(memory, 4096, MADV_WIPEONFORK) == 0) {
                page = new (memory) Agent::Guard{};
            }
        }
        constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS, kFlags = kOwn | MAP_NORESERVE;
        void* memory = MAP_FAILED;
        if (page != nullptr) {
            memory = mmap(nullptr, sizeof(Agent), PROT_READ | PROT_WRITE, kOwn, -1, 0);
        }
        void* parts = mmap(nullptr, sizeof(uint32_t) * kTableSlots, PROT_READ | PROT_WRITE, kFlags, -1, 0);
        void* objects = mmap(nullptr, sizeof(uint64_t) * kTableSlots, PROT_READ | PROT_WRITE, kFlags, -1, 0);
        if (memory != MAP_FAILED && parts != MAP_FAILED && objects != MAP_FAILED) {
            agent = new (memory) Agent();
            if (agent->store.create(pid)) {
                agent->forked_ = forked;
                agent->late_ = forked;
                const char* mode = getenv("TT_METAL_ALLOCATOR_MODE_HYBRID");
                agent->hybrid_ = mode != nullptr && mode[0] == '1';
                agent->next_part_ = static_cast<uint32_t*>(parts);
                agent->object_of_ = static_cast<uint64_t*>(objects);
                agent->homes_.reserve(kMeshes);
                Header* header = agent->store.header();
                header->coverage = metal.coverage;
                std::memcpy(header->wheel, metal.path, sizeof(header->wheel) - 1);
                std::memcpy(header->trouble, metal.trouble, sizeof(header->trouble) - 1);
                {
                    std::lock_guard<ProcessLock> guard(phases.lock);  // a phase is written here or by who begins it
                    phases.write_all(agent->store);
                    page->agent.store(agent);
                    Agent::guard_.store(page);
                }
                link_up(agent->store);
            } else {
                agent = nullptr;
            }
        }
        off = off.load() || agent == nullptr;  // no second try: a process without memory has other worries
    }
    starter.store(0);
    return agent;
}

std::atomic<Agent::Guard*> Agent::guard_{nullptr};

bool Agent::is_off() noexcept {
    const char* wish = getenv("TTMEM_AGENT");
    return off.load() || (wish != nullptr && std::strcmp(wish, "0") == 0);
}

Agent* Agent::find(const Metal& metal) noexcept {
    return off || metal.coverage == 0 || paused.load() ? nullptr : start(metal);
}

Agent* Agent::announce(const Metal& metal) noexcept {
    Agent* agent = current(metal);
    return agent != nullptr || off || paused.load() ? agent : start(metal);
}

// -- buffers --------------------------------------------------------------------------------------------------------

void Agent::allocated(const Metal& metal, void* allocator, void* buffer, uint64_t address, bool binary) {
    uint32_t type = metal.call<uint32_t>(kCall_buffer_type, buffer);
    Seen seen{};
    seen.size = metal.call<uint64_t>(kCall_buffer_size, buffer);
    if (seen.size == 0 || type > 4 || type == 2) {
        return;
    }
    seen.kind = static_cast<Kind>(type);
    seen.address = address;
    seen.object = reinterpret_cast<uint64_t>(buffer);
    seen.flags = binary ? kBinary : 0;
    seen.per_bank = metal.call<uint64_t>(kCall_buffer_per_bank, buffer);
    seen.layout =
        metal.has(kCall_buffer_layout) ? static_cast<uint8_t>(metal.call<uint32_t>(kCall_buffer_layout, buffer)) : 255;
    if (hybrid_ && seen.kind == Kind::kL1 && metal.has(kCall_buffer_page)) {
        uint64_t page = metal.call<uint64_t>(kCall_buffer_page, buffer);
        uint64_t unit = metal.call<uint32_t>(kCall_alignment, allocator, 0u);
        seen.per_bank = page == 0 ? seen.per_bank : seen.per_bank / page * round_up(page, unit);
    }
    if (seen.layout != 0 && seen.layout != 255 && metal.has(kCall_buffer_cores)) {
        seen.cores = static_cast<uint16_t>(metal.call<uint32_t>(kCall_buffer_cores, buffer));
        if (seen.kind == Kind::kL1 && is_per_core(metal, buffer)) {
            seen.flags |= kPerCore;
            per_core_.store(true, std::memory_order_relaxed);
        }
    }
    uint16_t index;
    {
        Locked held(store.lock);
        index = find_allocator(allocator);
        if (__builtin_expect(index != kNoMesh, 1)) {
            keep(index, seen);
        }
    }
    if (index == kNoMesh) {
        index = make_home(metal, allocator, metal.call<void*>(kCall_buffer_device, buffer), &seen);
        Locked held(store.lock);
        if (index == kNoMesh) {
            unfollowed_.insert_once(reinterpret_cast<uint64_t>(allocator), 1);
            return;
        }
        keep(index, seen);
    }
    after_change(metal, index, allocator);
}

// Has a sharded L1 buffer an address of its own on each core? A wheel that cannot be asked has such buffers only on the
// allocators of its chips, and nothing else that is sharded there.
bool Agent::is_per_core(const Metal& metal, void* buffer) const {
    if (metal.has(kCall_buffer_per_core)) {
        return metal.call<bool>(kCall_buffer_per_core, buffer);
    }
    void* device = hybrid_ ? metal.call<void*>(kCall_buffer_device, buffer) : nullptr;
    return device != nullptr && !is_mesh(metal, device) && metal.has(kCall_buffer_layout) &&
           metal.call<uint32_t>(kCall_buffer_layout, buffer) != 0;
}

// What the allocator has given out before anybody told us. Called without the lock, by who is about to follow it.
void Agent::count_earlier(const Metal& metal, const Mesh& mesh, Home& home, const Seen* first) {
    bool mirrored = hybrid_ && mesh.mesh_id == kNoMeshId;
    // Another thread may be between this allocator and our table: then nobody can tell what is from before.
    bool quiet = in_flight.load() == (first == nullptr ? 0 : 1);
    if (!metal.has(kCall_num_buffers) || !metal.has(kCall_statistics) || (!quiet && !forked_)) {
        return;
    }
    home.earlier_buffers = less(metal.call<uint64_t>(kCall_num_buffers, home.allocator), first == nullptr ? 0 : 1);
    if (home.earlier_buffers == 0) {
        return;
    }
    late_.store(true, std::memory_order_relaxed);
    for (int type : kTypes) {
        if (mesh.banks[type].banks > 0 && !mirrored) {
            home.earlier[type] = metal.call<Statistics>(kCall_statistics, home.allocator, &type).allocated;
        }
    }
    if (first != nullptr) {
        uint64_t& bytes = home.earlier[static_cast<uint8_t>(first->kind)];
        bytes = less(bytes, round_up(first->per_bank, home.unit));
    }
}

// A buffer is freed that is not in the table.
void Agent::free_unknown(uint16_t index, void* allocator, uint32_t type, uint64_t per_bank) noexcept {
    bool earlier = forked_;
    if (index == kNoMesh) {
        earlier = earlier || unfollowed_.find(reinterpret_cast<uint64_t>(allocator)) == nullptr;
    } else if (type <= 4) {
        Home& home = homes_[index];
        earlier = earlier || home.earlier_buffers > 0;
        home.earlier[type] = less(home.earlier[type], round_up(per_bank, home.unit));
        home.earlier_buffers = less(home.earlier_buffers, 1);
    }
    (earlier ? store.header()->earlier_frees : store.header()->unknown_frees)++;
}

// A buffer that is in the table goes.
void Agent::free_slot(uint32_t slot, uint8_t flags) noexcept {
    const Record& thing = store.table()[slot];
    Home& home = homes_[thing.mesh];
    home.ours[static_cast<uint8_t>(thing.kind)] -= thing.per_bank;
    home.buffers--;
    if ((thing.flags & kPerCore) != 0) {
        objects_.erase(object_of_[slot]);
    } else {
        buffers_.erase(key_of(thing.mesh, thing.kind, thing.address));
    }
    store.free(slot, flags);
}

void Agent::keep(uint16_t index, const Seen& seen) noexcept {
    Home& home = homes_[index];
    uint8_t type = static_cast<uint8_t>(seen.kind);
    bool per_core = __builtin_expect((seen.flags & kPerCore) != 0, 0);
    uint64_t key = key_of(index, seen.kind, seen.address);
    const uint32_t* taken = per_core ? objects_.find(seen.object) : buffers_.find(key);
    if (__builtin_expect(taken != nullptr, 0)) {  // its free escaped us
        free_slot(*taken, 0);
        store.header()->replaced++;
    }
    uint64_t reserved = round_up(seen.per_bank, home.unit);
    uint32_t slot = store.allocate([&](Record& r) {
        r.kind = seen.kind;
        r.layout = seen.layout;
        r.flags = seen.flags;
        r.address = seen.address;
        r.size = seen.size;
        r.per_bank = static_cast<uint32_t>(reserved);
        r.mesh = index;
        r.core_count = seen.cores;
        r.name = operation(store);
    });
    if (slot != kNoSlot) {
        if (per_core) {
            objects_.insert(seen.object, slot);
            object_of_[slot] = seen.object;
        } else {
            buffers_.insert(key, slot);
        }
        made(slot, store.table()[slot]);
        home.ours[type] += reserved;
        home.buffers++;
    }
}

uint16_t Agent::freeing(const Metal& metal, void* allocator, void* buffer) {
    uint32_t type = metal.call<uint32_t>(kCall_buffer_type, buffer);
    uint64_t address = metal.call<uint64_t>(kCall_buffer_address, buffer);
    bool late = late_.load(std::memory_order_relaxed);
    uint64_t per_bank = late ? metal.call<uint64_t>(kCall_buffer_per_bank, buffer) : 0;
    bool per_core = per_core_.load(std::memory_order_relaxed) && type == 1 && is_per_core(metal, buffer);
    Locked held(store.lock);
    uint16_t index = find_allocator(allocator);
    if (__builtin_expect(per_core, 0)) {
        if (const uint32_t* own = objects_.find(reinterpret_cast<uint64_t>(buffer))) {
            free_slot(*own, 0);
            return index;
        }
    } else if (index != kNoMesh && type <= 4) {
        uint64_t key = key_of(index, static_cast<Kind>(type), address);
        if (const uint32_t* slot = buffers_.find(key)) {
            uint32_t found = *slot;
            homes_[index].ours[type] -= store.table()[found].per_bank;
            homes_[index].buffers--;
            buffers_.erase(key);
            store.free(found, 0);
            return index;
        }
    }
    free_unknown(index, allocator, type, per_bank);
    return kNoMesh;
}

void Agent::freed(const Metal& metal, void* allocator, uint16_t index) {
    if (index != kNoMesh) {
        after_change(metal, index, allocator);
    }
}

void Agent::free_all(uint16_t index) {
    Record* table = store.table();
    for (uint32_t slot = 0; slot < store.header()->table_high; slot++) {
        Record& thing = table[slot];
        if (thing.sequence != 0 && thing.mesh == index && static_cast<uint8_t>(thing.kind) <= 4) {
            free_slot(slot, kWholesale);
        }
    }
    Home& home = homes_[index];
    std::memset(home.earlier, 0, sizeof(home.earlier));
}

void Agent::freeing_all(void* allocator, bool gone) {
    Locked held(store.lock);
    uint16_t index = find_allocator(allocator);
    if (index != kNoMesh) {
        gone ? close_home(index) : free_all(index);
    }
}

// -- failures -------------------------------------------------------------------------------------------------------

void Agent::failed(const char* text, void* allocator, void* device, void* workload) noexcept {
    // What follows is the backtrace, which is long and different each time.
    const char* end = std::strstr(text, "\nbacktrace:");
    uint32_t length = static_cast<uint32_t>(end == nullptr ? std::strlen(text) : static_cast<size_t>(end - text));
    Locked held(store.lock);
    uint16_t index = allocator != nullptr ? find_allocator(allocator)
                     : device != nullptr  ? find_device(device)
                                          : kNoMesh;
    if (workload != nullptr) {
        uint32_t* first = workloads_.find(reinterpret_cast<uint64_t>(workload));
        Program* program = first == nullptr || *first == 0 ? nullptr : &pool_[*first - 1];
        index = program != nullptr && program->has_home ? program->home : kNoMesh;
    }
    bool room = store.header()->blobs_used < kBlobBytes / 4 * 3;
    store.header()->blobs_full += !room;
    uint32_t said = room ? store.blob(text, length) : 0;
    store.append(Event::kFailed, [&](Record& r) {
        r.mesh = index;
        r.name = said;
        r.cores = operation(store);
    });
}

// -- the audit ------------------------------------------------------------------------------------------------------

void Agent::after_change(const Metal& metal, uint16_t index, void* allocator) {
    // homes_ never moves: its room was reserved.
    Home& home = homes_[index];
    uint32_t events = __atomic_load_n(&home.events, __ATOMIC_RELAXED) + 1;  // a lost count only shifts the next look
    __atomic_store_n(&home.events, events, __ATOMIC_RELAXED);
    if (events % kLookEvery != 0 && events > kLookEvery / 8) {
        return;
    }
    uint64_t now = Store::now();
    if (now >= __atomic_load_n(&home.next_audit, __ATOMIC_RELAXED) && audit(metal, index, allocator, 1)) {
        __atomic_store_n(&home.next_audit, now + kAuditEvery, __ATOMIC_RELAXED);
    }
}

bool Agent::audit(const Metal& metal, uint16_t index, void* allocator, uint32_t expected) {
    // Meaningful only while nobody else is between the allocator and our table.
    // A chip's own list mirrors the mesh's buffers in hybrid mode, so its sums are not those of its buffers.
    bool mirrored = hybrid_ && store.meshes()[index].mesh_id == kNoMeshId;
    if (in_flight.load() != expected || !metal.has(kCall_statistics)) {
        return false;
    }
    uint64_t head = __atomic_load_n(&store.header()->head, __ATOMIC_ACQUIRE);
    uint64_t count = metal.has(kCall_num_buffers) ? metal.call<uint64_t>(kCall_num_buffers, allocator) : 0;
    Statistics statistics[5] = {};
    for (int type : kTypes) {
        if (store.meshes()[index].banks[type].banks > 0 && !mirrored) {
            statistics[type] = metal.call<Statistics>(kCall_statistics, allocator, &type);
        }
    }
    Locked held(store.lock);
    Home& home = homes_[index];
    if (store.header()->head != head || in_flight.load() != expected || home.allocator != allocator) {
        return false;
    }
    Mesh& mesh = store.meshes()[index];
    __atomic_add_fetch(&mesh.turn, 1, __ATOMIC_ACQ_REL);
    mesh.buffers_ours = home.buffers;
    mesh.buffers_theirs = less(count, home.earlier_buffers);
    bool equal = true;
    for (int type : kTypes) {
        if (mirrored) {
            break;  // only how many there are can be compared
        }
        Bank& bank = mesh.banks[type];
        bank.ours = home.ours[type];
        bank.theirs = less(statistics[type].allocated, home.earlier[type]);
        bank.largest_free = statistics[type].largest_free;
        equal = equal && bank.ours == bank.theirs;
    }
    if (!mirrored) {
        mesh.audits++;
        mesh.mismatches += !equal;
    }
    mesh.audited = Store::now();
    __atomic_add_fetch(&mesh.turn, 1, __ATOMIC_ACQ_REL);
    return true;
}

}  // namespace ttmem
