// SPDX-License-Identifier: Apache-2.0
#include "agent.h"

#include <sys/mman.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>

#include "connect.h"
#include "operations.h"

namespace ttmem {

std::atomic<bool> paused{false};

namespace {

constexpr uint16_t kNowhere = 0xffff;
constexpr uint64_t kAuditEvery = 100'000'000;  // nanoseconds
constexpr uint32_t kLookEvery = 32;            // events, before the clock is asked whether an audit is due
constexpr int kTypes[] = {0, 1, 3, 4};         // BufferType codes that have banks

enum Slot { kArch = 2, kId = 3 };  // of IDevice's virtual functions

template <typename R>
R virtual_call(void* object, int slot) {
    return reinterpret_cast<R (*)(void*)>((*static_cast<void***>(object))[slot])(object);
}

bool is_mesh(const Metal& metal, void* device) {
    return *static_cast<void**>(device) == static_cast<char*>(metal.calls[kCall_mesh_vtable]) + 16;
}

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
    const char* wish = getenv("TTMEM_AGENT");
    off = off.load() || (wish != nullptr && std::strcmp(wish, "0") == 0);
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
                header->active = metal.called;
                header->wanted = (1ull << kHookCount) - 1;
                std::memcpy(header->wheel, metal.path, sizeof(header->wheel) - 1);
                std::memcpy(header->trouble, metal.trouble, sizeof(header->trouble) - 1);
                page->agent.store(agent);
                Agent::guard_.store(page);
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

Agent* Agent::find(const Metal& metal) noexcept {
    return off || metal.coverage == 0 || paused.load() ? nullptr : start(metal);
}

Agent* Agent::announce(const Metal& metal) noexcept {
    Agent* agent = current(metal);
    return agent != nullptr || off || paused.load() ? agent : start(metal);
}

// -- meshes and their allocators ------------------------------------------------------------------------------------

uint16_t Agent::find_allocator(void* allocator) const noexcept {
    for (size_t i = homes_.size(); i-- > 0;) {  // the youngest first: it is the one in use
        if (homes_[i].allocator == allocator) {
            return static_cast<uint16_t>(i);
        }
    }
    return kNowhere;
}

uint16_t Agent::find_device(void* device) const noexcept {
    for (size_t i = homes_.size(); i-- > 0;) {
        if (homes_[i].device == device && homes_[i].allocator != nullptr) {
            return static_cast<uint16_t>(i);
        }
    }
    return kNowhere;
}

uint16_t Agent::home_of(const Metal& metal, void* allocator, void* device) {
    {
        Locked held(store.lock);
        uint16_t found = allocator != nullptr ? find_allocator(allocator) : find_device(device);
        if (found != kNowhere) {
            return found;
        }
    }
    return make_home(metal, allocator, device);
}

uint16_t Agent::chip_index(const Metal& metal, void* device) {
    uint32_t number = virtual_call<uint32_t>(device, kId);
    uint32_t arch = virtual_call<uint32_t>(device, kArch);
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
        return kNowhere;
    }
    Chip& chip = store.chips()[header->chips_used];
    chip.unique_id = unique;
    chip.number = number;
    chip.arch = arch;
    chip.board = board;
    chip.remote = remote;
    return static_cast<uint16_t>(header->chips_used++);
}

uint16_t Agent::make_home(const Metal& metal, void* allocator, void* device) {
    if (device == nullptr) {
        return kNowhere;
    }
    Home home{};
    home.device = device;
    home.metal = &metal;
    bool mesh = is_mesh(metal, device);
    if (allocator == nullptr) {
        Call getter = mesh ? kCall_mesh_allocator : kCall_chip_allocator;
        void** owner = metal.call<void**>(getter, device);
        allocator = owner == nullptr ? nullptr : *owner;
        if (allocator == nullptr) {
            return kNowhere;
        }
    }
    home.allocator = allocator;
    uint32_t mesh_id = kNoMesh;
    home.rows = home.columns = 1;
    if (mesh) {
        mesh_id = metal.call<uint32_t>(kCall_mesh_id, device);
        std::vector<void*> devices = metal.call<std::vector<void*>>(kCall_mesh_devices, device);
        for (void* chip : devices) {
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
    Place place{};
    place.state = 1;
    place.mesh = mesh_id;
    place.chip_count = static_cast<uint32_t>(home.chips.size());
    place.arch = virtual_call<uint32_t>(device, kArch);
    home.unit = metal.call<uint32_t>(kCall_alignment, allocator, 0u);
    for (int type : kTypes) {
        Bank& bank = place.banks[type];
        bank.banks = metal.call<uint32_t>(kCall_num_banks, allocator, &type);
        bank.size = bank.banks == 0 ? 0 : metal.call<uint64_t>(kCall_bank_size, allocator, &type);
        bank.unit = home.unit;
    }
    uint8_t l1 = 0, dram = 1;  // HalMemType
    place.l1_base = metal.call<uint64_t>(kCall_base_address, allocator, &l1);
    place.dram_base = metal.call<uint64_t>(kCall_base_address, allocator, &dram);
    place.l1_size = place.l1_base + place.banks[1].size + place.banks[3].size;
    if (metal.has(kCall_max_unreserved) && place.l1_size > 0) {
        uint64_t unreserved = metal.call<uint32_t>(kCall_max_unreserved);
        place.map_end = unreserved < place.l1_size ? place.l1_size - unreserved : 0;
    }
    if (metal.has(kCall_has_bank)) {
        for (uint64_t y = 0; y < Cores::kRows; y++) {
            for (uint64_t x = 0; x < 32; x++) {
                uint64_t core[2] = {x, y};
                if (metal.call<bool>(kCall_has_bank, allocator, 1u, static_cast<const uint64_t*>(core))) {
                    home.grid.add(x, y);
                }
            }
        }
    }
    if (forked_ && metal.has(kCall_statistics)) {
        for (int type : kTypes) {
            if (place.banks[type].banks > 0) {
                home.inherited[type] = metal.call<Statistics>(kCall_statistics, allocator, &type).allocated;
            }
        }
        home.inherited_buffers = metal.has(kCall_num_buffers) ? metal.call<uint64_t>(kCall_num_buffers, allocator) : 0;
    }

    Locked held(store.lock);
    uint16_t found = find_allocator(allocator);
    Header* header = store.header();
    if (found != kNowhere) {
        return found;
    }
    uint16_t index = free_place();
    if (index == kNowhere) {
        header->places_full++;
        return index;
    }
    place.whole = index;
    place.chips = store.blob(home.chips.data(), static_cast<uint32_t>(home.chips.size() * 2));
    place.cores = store.core_set(home.grid);
    set_place(index, place, std::move(home));
    store.append(Event::kOpened, [&](Record& r) { r.place = index; });
    return index;
}

// A new place, or when there are no more the one that was closed longest ago.
uint16_t Agent::free_place() const noexcept {
    if (homes_.size() < kPlaces) {
        return static_cast<uint16_t>(homes_.size());
    }
    for (uint32_t step = 1; step <= kPlaces; step++) {
        uint16_t index = static_cast<uint16_t>((last_place_ + step) % kPlaces);
        if (store.places()[index].state == 2) {
            return index;
        }
    }
    return kNowhere;
}

void Agent::set_place(uint16_t index, const Place& place, Home&& home) {
    if (index == homes_.size()) {
        homes_.push_back(std::move(home));
    } else {
        homes_[index] = std::move(home);
    }
    last_place_ = index;
    Place& there = store.places()[index];
    uint32_t turn = __atomic_add_fetch(&there.turn, 1, __ATOMIC_ACQ_REL);
    there = place;
    there.turn = turn;
    __atomic_add_fetch(&there.turn, 1, __ATOMIC_ACQ_REL);
    Header* header = store.header();
    header->places_used = header->places_used > index ? header->places_used : index + 1u;
}

uint16_t Agent::part_of(uint16_t index, const uint32_t range[4]) {
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
        if (store.places()[i].whole == index && store.places()[i].chips == blob && store.places()[i].state == 1) {
            return static_cast<uint16_t>(i);
        }
    }
    uint16_t made = free_place();
    if (made == kNowhere || blob == 0) {
        return index;
    }
    Place place = store.places()[index];
    place.chips = blob;
    place.chip_count = static_cast<uint32_t>(chips.size());
    Home part{};
    part.metal = home.metal;
    part.grid = home.grid;
    part.chips = std::move(chips);
    set_place(made, place, std::move(part));
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
        allocator = index == kNowhere ? nullptr : homes_[index].allocator;
    }
    if (allocator != nullptr) {
        audit(metal, index, allocator, 0);
    }
    Locked held(store.lock);
    if (allocator != nullptr && homes_[index].allocator == allocator) {
        store.append(Event::kClosing, [&](Record& r) { r.place = index; });
    }
}

void Agent::closed(const Metal&, void* mesh) noexcept {
    Locked held(store.lock);
    uint16_t index = find_device(mesh);
    if (index != kNowhere) {
        close_home(index);
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

void Agent::close_home(uint16_t index) {
    free_all(index);
    for (Program& program : pool_) {
        if (program.impl != nullptr && program.has_home && program.home == index) {
            drop(program);
        }
    }
    store.append(Event::kClosed, [&](Record& r) { r.place = index; });
    for (size_t i = 0; i < homes_.size(); i++) {
        if (store.places()[i].state == 1 && (i == index || store.places()[i].whole == index)) {
            store.places()[i].state = 2;
            homes_[i].allocator = homes_[i].device = nullptr;
        }
    }
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

void Agent::freeing_all(void* allocator, bool gone) {
    Locked held(store.lock);
    uint16_t index = find_allocator(allocator);
    if (index != kNowhere) {
        gone ? close_home(index) : free_all(index);
    }
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
