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

uint64_t key_of(uint16_t place, Kind kind, uint64_t address) {
    return uint64_t{place} << 48 | uint64_t{static_cast<uint8_t>(kind)} << 45 | (address & ((1ull << 45) - 1));
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
        void* memory = page == nullptr ? MAP_FAILED
                                       : mmap(nullptr, sizeof(Agent), PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void* parts = mmap(nullptr, sizeof(uint32_t) * kTableSlots, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED && parts != MAP_FAILED) {
            agent = new (memory) Agent();
            if (agent->store.create(pid)) {
                agent->forked_ = forked;
                const char* mode = getenv("TT_METAL_ALLOCATOR_MODE_HYBRID");
                agent->hybrid_ = mode != nullptr && mode[0] == '1';
                agent->next_part_ = static_cast<uint32_t*>(parts);
                agent->homes_.reserve(kPlaces);
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
    seen.flags = binary ? kBinary : 0;
    seen.per_bank = metal.call<uint64_t>(kCall_buffer_per_bank, buffer);
    seen.layout =
        metal.has(kCall_buffer_layout) ? static_cast<uint8_t>(metal.call<uint32_t>(kCall_buffer_layout, buffer)) : 255;
    if (hybrid_ && seen.kind == Kind::kL1 && metal.has(kCall_buffer_page)) {
        uint64_t page = metal.call<uint64_t>(kCall_buffer_page, buffer), unit = metal.call<uint32_t>(kCall_alignment, allocator, 0u);
        seen.per_bank = page == 0 ? seen.per_bank : seen.per_bank / page * round_up(page, unit);
    }
    if (seen.layout != 0 && seen.layout != 255 && metal.has(kCall_buffer_cores)) {
        seen.cores = static_cast<uint16_t>(metal.call<uint32_t>(kCall_buffer_cores, buffer));
    }
    uint16_t index;
    {
        Locked held(store.lock);
        index = find_allocator(allocator);
        if (__builtin_expect(index != kNowhere, 1)) {
            keep(index, seen);
        }
    }
    if (index == kNowhere) {
        index = make_home(metal, allocator, metal.call<void*>(kCall_buffer_device, buffer));
        if (index == kNowhere) {
            return;
        }
        Locked held(store.lock);
        if (forked_) {  // the allocator counted it already when it was asked what the child was born with
            inherited_less(index, type, seen.per_bank);
        }
        keep(index, seen);
    }
    after_change(metal, index, allocator);
}

// One buffer less of those that a forked child was born with.
void Agent::inherited_less(uint16_t index, uint32_t type, uint64_t per_bank) noexcept {
    Home& home = homes_[index];
    home.inherited[type] = less(home.inherited[type], round_up(per_bank, home.unit));
    home.inherited_buffers = less(home.inherited_buffers, 1);
}

void Agent::keep(uint16_t index, const Seen& seen) noexcept {
    Home& home = homes_[index];
    uint8_t type = static_cast<uint8_t>(seen.kind);
    uint64_t key = key_of(index, seen.kind, seen.address);
    uint32_t* taken = buffers_.find(key);
    if (taken != nullptr) {  // its free escaped us
        uint32_t old = *taken;
        home.ours[type] -= store.table()[old].per_bank;
        home.buffers--;
        buffers_.erase(key);
        store.free(old, 0);
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
        r.place = index;
        r.core_count = seen.cores;
        r.name = operation(store);
    });
    if (slot != kNoSlot) {
        buffers_.insert(key, slot);
        made(slot, store.table()[slot]);
        home.ours[type] += reserved;
        home.buffers++;
    }
}

uint16_t Agent::freeing(const Metal& metal, void* allocator, void* buffer) {
    uint32_t type = metal.call<uint32_t>(kCall_buffer_type, buffer);
    uint64_t address = metal.call<uint64_t>(kCall_buffer_address, buffer);
    uint64_t per_bank = forked_ ? metal.call<uint64_t>(kCall_buffer_per_bank, buffer) : 0;
    Locked held(store.lock);
    uint16_t index = find_allocator(allocator);
    uint64_t key = key_of(index, static_cast<Kind>(type), address);
    uint32_t* slot = index == kNowhere || type > 4 ? nullptr : buffers_.find(key);
    if (slot == nullptr) {
        store.header()->unknown_frees += !forked_;
        if (forked_ && index != kNowhere && type <= 4) {
            inherited_less(index, type, per_bank);
        }
        return kNowhere;
    }
    uint32_t found = *slot;
    homes_[index].ours[type] -= store.table()[found].per_bank;
    homes_[index].buffers--;
    buffers_.erase(key);
    store.free(found, 0);
    return index;
}

void Agent::freed(const Metal& metal, void* allocator, uint16_t index) {
    if (index != kNowhere) {
        after_change(metal, index, allocator);
    }
}

void Agent::free_all(uint16_t index) {
    Record* table = store.table();
    for (uint32_t slot = 0; slot < store.header()->table_high; slot++) {
        Record& thing = table[slot];
        if (thing.sequence != 0 && thing.place == index && static_cast<uint8_t>(thing.kind) <= 4) {
            buffers_.erase(key_of(index, thing.kind, thing.address));
            store.free(slot, kWholesale);
        }
    }
    Home& home = homes_[index];
    std::memset(home.ours, 0, sizeof(home.ours));
    std::memset(home.inherited, 0, sizeof(home.inherited));
    home.buffers = home.inherited_buffers = 0;
}

void Agent::freeing_all(void* allocator, bool gone) {
    Locked held(store.lock);
    uint16_t index = find_allocator(allocator);
    if (index != kNowhere) {
        gone ? close_home(index) : free_all(index);
    }
}

// -- failures -------------------------------------------------------------------------------------------------------

void Agent::failed(const char* text, void* allocator, void* device, void* workload) noexcept {
    // What follows is the backtrace, which is long and different each time.
    const char* end = std::strstr(text, "\nbacktrace:");
    uint32_t length = static_cast<uint32_t>(end == nullptr ? std::strlen(text) : static_cast<size_t>(end - text));
    Locked held(store.lock);
    uint16_t index = allocator != nullptr ? find_allocator(allocator) : device != nullptr ? find_device(device) : kNowhere;
    if (workload != nullptr) {
        uint32_t* first = workloads_.find(reinterpret_cast<uint64_t>(workload));
        Program* program = first == nullptr || *first == 0 ? nullptr : &pool_[*first - 1];
        index = program != nullptr && program->has_home ? program->home : kNowhere;
    }
    bool room = store.header()->blobs_used < kBlobBytes / 4 * 3;
    store.header()->blobs_full += !room;
    uint32_t said = room ? store.blob(text, length) : 0;
    store.append(Event::kFailed, [&](Record& r) {
        r.place = index;
        r.name = said;
        r.cores = operation(store);
    });
}

// -- the audit ------------------------------------------------------------------------------------------------------

void Agent::after_change(const Metal& metal, uint16_t index, void* allocator) {
    Home& home = homes_[index];  // homes_ never moves: its room was reserved
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
    bool mirrored = hybrid_ && store.places()[index].mesh == kNoMesh;
    if (in_flight.load() != expected || !metal.has(kCall_statistics) || mirrored) {
        return false;
    }
    uint64_t head = __atomic_load_n(&store.header()->head, __ATOMIC_ACQUIRE);
    uint64_t count = metal.has(kCall_num_buffers) ? metal.call<uint64_t>(kCall_num_buffers, allocator) : 0;
    Statistics statistics[5] = {};
    for (int type : kTypes) {
        if (store.places()[index].banks[type].banks > 0) {
            statistics[type] = metal.call<Statistics>(kCall_statistics, allocator, &type);
        }
    }
    Locked held(store.lock);
    Home& home = homes_[index];
    if (store.header()->head != head || in_flight.load() != expected || home.allocator != allocator) {
        return false;
    }
    Place& place = store.places()[index];
    __atomic_add_fetch(&place.turn, 1, __ATOMIC_ACQ_REL);
    place.buffers_ours = home.buffers;
    place.buffers_theirs = less(count, home.inherited_buffers);
    bool equal = true;
    for (int type : kTypes) {
        Bank& bank = place.banks[type];
        bank.ours = home.ours[type];
        bank.theirs = less(statistics[type].allocated, home.inherited[type]);
        bank.largest_free = statistics[type].largest_free;
        equal = equal && bank.ours == bank.theirs;
    }
    place.audits++;
    place.mismatches += !equal;
    place.audited = Store::now();
    __atomic_add_fetch(&place.turn, 1, __ATOMIC_ACQ_REL);
    return true;
}

}  // namespace ttmem
