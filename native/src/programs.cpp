// SPDX-License-Identifier: Apache-2.0
// The part of the agent that deals with programs: circular and dataflow buffers, scratchpads, kernels, launches.
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "agent.h"
#include "operations.h"

namespace ttmem {

namespace {

constexpr uint32_t kTensix = 0, kCoreTypes = 3;  // Tensix, active and idle ethernet

using Kernels = std::unordered_map<uint32_t, std::shared_ptr<void>>;
struct Opaque;  // an argument that is handed on unread

// How many binaries a kernel has, by its class; 0 for a class we do not know.
int binaries(const Metal& metal, void* kernel) {
    const char* table = *static_cast<const char**>(kernel) - 16;
    if (table == metal.calls[kCall_compute_vtable]) {
        return 3;
    }
    return table == metal.calls[kCall_data_vtable] || table == metal.calls[kCall_ethernet_vtable] ? 1 : 0;
}

const char* class_of(const Metal& metal, void* kernel) {
    const char* table = *static_cast<const char**>(kernel) - 16;
    return table == metal.calls[kCall_compute_vtable] ? "compute"
           : table == metal.calls[kCall_data_vtable]  ? "data movement"
                                                      : "ethernet";
}

Cores cores_of(const Metal& metal, void* kernel) {
    Cores cores;
    for (uint64_t y = 0; y < Cores::kRows; y++) {
        for (uint64_t x = 0; x < 32; x++) {
            uint64_t core[2] = {x, y};
            if (metal.call<bool>(kCall_kernel_on_core, kernel, static_cast<const uint64_t*>(core))) {
                cores.add(x, y);
            }
        }
    }
    return cores;
}

bool outside(const Cores& cores, const Cores& grid) {
    if (grid.count() == 0) {
        return false;  // not known
    }
    for (uint32_t y = 0; y < Cores::kRows; y++) {
        if ((cores.rows[y] & ~grid.rows[y]) != 0) {
            return true;
        }
    }
    return false;
}

uint32_t core_types(void* device) {
    uint32_t arch = virtual_call(device, kArch);
    return arch == 2 || arch == 3 ? kCoreTypes : 1;
}

}  // namespace

Agent::Program* Agent::find_program(void* impl) noexcept {
    uint32_t* index = programs_.find(reinterpret_cast<uint64_t>(impl));
    return index == nullptr ? nullptr : &pool_[*index];
}

Agent::Program& Agent::program_of(void* impl) {
    if (Program* known = find_program(impl)) {
        return *known;
    }
    uint32_t index;
    if (!spare_.empty()) {
        index = spare_.back();
        spare_.pop_back();
    } else {
        index = static_cast<uint32_t>(pool_.size());
        pool_.emplace_back();
    }
    Program& program = pool_[index];
    program = {};
    program.impl = impl;
    program.number = ++last_number_;
    program.frame = kNoSlot;
    programs_.insert(reinterpret_cast<uint64_t>(impl), index);
    return program;
}

// Says where a program runs: on the whole mesh, or on the part of it that its workload names.
void Agent::settle(Program& program, uint16_t home) {
    program.home = home;
    program.has_home = true;
    program.place = program.has_range ? part_of(home, program.range) : home;
}

void Agent::frame(Program& program, uint64_t ring) {
    uint32_t slot = program.frame == kNoSlot ? store.take_slot() : program.frame;
    uint8_t flags = program.frame == kNoSlot || slot == kNoSlot ? 0 : store.table()[slot].flags;
    const Record& record = store.append(Event::kProgram, [&](Record& r) {
        r.kind = Kind::kProgramFrame;
        r.flags = flags;
        r.address = program.metal_id;
        r.size = ring;
        r.per_bank = static_cast<uint32_t>(ring);
        r.slot = slot;
        r.place = program.place;
        r.cores = program.cores;
        r.program = program.number;
        r.name = operation(store);
    });
    store.keep(slot, record);
    program.frame = slot;
}

void Agent::add_part(Program& program, const Part& part) {
    uint32_t count = part.cores.count();
    uint32_t slot = store.allocate([&](Record& r) {
        r.kind = part.kind;
        r.flags = part.flags;
        r.address = part.address;
        r.size = uint64_t{part.per_core} * count;
        r.per_bank = part.per_core;
        r.place = program.place;
        r.core_count = static_cast<uint16_t>(count);
        r.cores = store.core_set(part.cores);
        r.program = program.number;
        r.name = part.name != 0 ? part.name : operation(store);
    });
    if (slot != kNoSlot) {
        next_part_[slot] = program.parts;
        program.parts = slot + 1;
    }
}

// The parts of some kinds are now these; what was there before is gone.
void Agent::replace(Program& program, Kind first, Kind last, const std::vector<Part>& parts) {
    uint32_t* link = &program.parts;
    while (*link != 0) {
        uint32_t slot = *link - 1;
        Kind kind = store.table()[slot].kind;
        if (kind >= first && kind <= last) {
            *link = next_part_[slot];
            store.free(slot, 0);
        } else {
            link = &next_part_[slot];
        }
    }
    for (const Part& part : parts) {
        add_part(program, part);
    }
}

void Agent::drop(Program& program) {
    if (program.frame != kNoSlot || program.parts != 0) {
        store.append(Event::kDestroyed, [&](Record& r) {
            r.kind = Kind::kProgramFrame;
            r.address = program.metal_id;
            r.slot = program.frame;
            r.place = program.place;
            r.cores = program.cores;
            r.program = program.number;
        });
    }
    for (uint32_t at = program.parts; at != 0;) {
        uint32_t slot = at - 1;
        at = next_part_[slot];
        store.forget(slot);
    }
    if (program.frame != kNoSlot) {
        store.forget(program.frame);
    }
    program.parts = 0;
    program.frame = kNoSlot;
    program.has_home = false;
    program.compiled = false;
    program.ring_known = false;
}

void Agent::placed(const Metal& metal, void* impl, void* device, Kind kind, const std::vector<Part>& parts) {
    if (parts.empty()) {
        return;  // laid out before, or nothing of this kind
    }
    uint16_t home = home_of(metal, nullptr, device);
    uint64_t id = metal.call<uint64_t>(kCall_program_id, impl);
    if (home == kNowhere) {
        return;
    }
    Locked held(store.lock);
    Program& program = program_of(impl);
    program.metal_id = id;
    settle(program, home);
    if (program.frame == kNoSlot) {
        frame(program, 0);
    }
    replace(program, kind, kind, parts);
}

void Agent::scratchpads_placed(const Metal& metal, void* impl, void* device) {
    std::vector<Part> parts;
    const Kernels& kernels = *metal.call<const Kernels*>(kCall_program_kernels, impl, kTensix);
    for (const auto& [_, kernel] : kernels) {
        void* self = kernel.get();
        const auto& words = *metal.call<const std::vector<uint32_t>*>(kCall_kernel_args, self);
        auto found = [&](const std::string& name, uint32_t size, uint32_t word) {
            if (size > 0 && word < words.size()) {
                Locked held(store.lock);
                parts.push_back({Kind::kScratchpad, 0, words[word], size, {},
                                 store.blob(name.data(), static_cast<uint32_t>(name.size()))});
            }
        };
        size_t before = parts.size();
        if (metal.calls[kCall_kernel_scratchpads] == metal.calls[kCall_kernel_scratchpads_older]) {  // before 0.80
            std::function<void(const std::string&, uint32_t, uint32_t)> each = found;
            metal.call<void>(kCall_kernel_scratchpads_older, self, &each);
        } else {
            std::function<void(const std::string&, uint32_t, uint32_t, const Opaque&)> each =
                [&](const std::string& name, uint32_t size, uint32_t word, const Opaque&) { found(name, size, word); };
            metal.call<void>(kCall_kernel_scratchpads, self, &each);
        }
        if (parts.size() > before) {
            Cores cores = cores_of(metal, self);
            for (size_t i = before; i < parts.size(); i++) {
                parts[i].cores = cores;
            }
        }
    }
    // Kernels of one core share a scratchpad that they bind to: the same place is one thing.
    std::vector<Part> distinct;
    for (const Part& part : parts) {
        bool known = false;
        for (Part& other : distinct) {
            if (other.address == part.address && other.per_core == part.per_core && other.name == part.name) {
                other.cores.merge(part.cores);
                known = true;
            }
        }
        if (!known) {
            distinct.push_back(part);
        }
    }
    placed(metal, impl, device, Kind::kScratchpad, distinct);
}

void Agent::compiled(const Metal& metal, void* impl, void* device) {
    {
        Locked held(store.lock);
        Program* known = find_program(impl);
        if (known != nullptr && known->compiled) {
            return;
        }
    }
    uint16_t home = home_of(metal, nullptr, device);
    if (home == kNowhere) {
        return;
    }
    Cores grid, all;
    {
        Locked held(store.lock);
        grid = homes_[home].grid;
    }
    std::vector<Part> parts;
    for (uint32_t type = 0; type < core_types(device); type++) {
        const Kernels& kernels = *metal.call<const Kernels*>(kCall_program_kernels, impl, type);
        for (const auto& [id, kernel] : kernels) {
            void* self = kernel.get();
            int count = binaries(metal, self);
            std::string name = metal.call<std::string>(kCall_kernel_name, self);
            Part part{Kind::kKernel, 0, uint64_t{type} << 32 | id, 0, cores_of(metal, self), 0};
            char text[512];
            int used = std::snprintf(text, sizeof(text), "%.380s\t%s\t", name.c_str(), class_of(metal, self));
            for (int i = 0; i < count; i++) {
                uint32_t bytes = metal.call<uint32_t>(kCall_kernel_packed, self, device, i);
                part.per_core += bytes;
                used += std::snprintf(text + used, sizeof(text) - static_cast<size_t>(used), "%s%u", i > 0 ? "," : "", bytes);
            }
            if (type != kTensix) {
                part.kind = Kind::kFabricKernel;
            } else {
                part.kind = name.rfind("cq_", 0) == 0 || outside(part.cores, grid) ? Kind::kDispatchKernel : Kind::kKernel;
                all.merge(part.cores);
            }
            Locked held(store.lock);
            part.name = store.text(text);
            if (part.per_core > 0) {
                parts.push_back(part);
            }
        }
    }
    uint64_t id = metal.call<uint64_t>(kCall_program_id, impl);
    Locked held(store.lock);
    Program& program = program_of(impl);
    program.metal_id = id;
    program.compiled = true;
    program.cores = store.core_set(all);
    settle(program, home);
    frame(program, 0);
    replace(program, Kind::kKernel, Kind::kDispatchKernel, parts);
}

void Agent::program_gone(void* impl) noexcept {
    Locked held(store.lock);
    Program* program = find_program(impl);
    if (program == nullptr) {
        return;
    }
    drop(*program);
    uint32_t index = static_cast<uint32_t>(program - pool_.data());
    if (program->workload != nullptr) {
        uint32_t* link = workloads_.find(reinterpret_cast<uint64_t>(program->workload));
        while (link != nullptr && *link != 0) {
            if (*link == index + 1) {
                *link = program->next;
                break;
            }
            link = &pool_[*link - 1].next;
        }
    }
    programs_.erase(reinterpret_cast<uint64_t>(impl));
    program->impl = nullptr;
    spare_.push_back(index);
}

void Agent::added(const Metal& metal, void* workload, void* impl, const void* range) {
    struct Span {
        const uint32_t* data;
        uint64_t size;
    };
    uint32_t corners[4] = {0, 0, 0, 0};
    bool flat = false;
    if (metal.has(kCall_range_start) && metal.has(kCall_range_end) && metal.has(kCall_coordinates)) {
        Span from = metal.call<Span>(kCall_coordinates, metal.call<const void*>(kCall_range_start, range));
        Span to = metal.call<Span>(kCall_coordinates, metal.call<const void*>(kCall_range_end, range));
        flat = from.size == 2 && to.size == 2 && from.data != nullptr && to.data != nullptr;
        if (flat) {
            corners[0] = from.data[0];
            corners[1] = from.data[1];
            corners[2] = to.data[0];
            corners[3] = to.data[1];
        }
    }
    Locked held(store.lock);
    Program& program = program_of(impl);
    uint32_t index = static_cast<uint32_t>(&program - pool_.data());
    program.has_range = flat;
    std::memcpy(program.range, corners, sizeof(corners));
    if (program.workload != workload) {
        program.workload = workload;
        uint64_t key = reinterpret_cast<uint64_t>(workload);
        uint32_t* first = workloads_.find(key);
        program.next = first == nullptr ? 0 : *first;
        if (first != nullptr) {
            *first = index + 1;
        } else {
            workloads_.insert(key, index + 1);
        }
    }
    if (program.has_home && flat) {  // it was compiled before it was known which chips it is for
        uint16_t place = part_of(program.home, program.range);
        if (place != program.place) {
            program.place = place;
            if (program.frame != kNoSlot) {
                uint64_t ring = store.table()[program.frame].size;
                frame(program, ring);
            }
            for (uint32_t at = program.parts; at != 0; at = next_part_[at - 1]) {
                uint32_t slot = at - 1;
                Record thing = store.table()[slot];
                store.append(Event::kFreed, [&](Record& r) { r = thing; });
                const Record& record = store.append(Event::kAllocated, [&](Record& r) {
                    r = thing;
                    r.place = place;
                });
                store.keep(slot, record);
            }
        }
    }
}

void Agent::workload_gone(void* workload) noexcept {
    Locked held(store.lock);
    uint64_t key = reinterpret_cast<uint64_t>(workload);
    uint32_t* first = workloads_.find(key);
    if (first == nullptr) {
        return;
    }
    for (uint32_t at = *first; at != 0;) {
        Program& program = pool_[at - 1];
        at = program.next;
        program.workload = nullptr;
        program.next = 0;
    }
    workloads_.erase(key);
}

void Agent::ran(const Metal& metal, void* workload) {
    uint64_t key = reinterpret_cast<uint64_t>(workload);
    for (;;) {
        void* unknown = nullptr;  // a program whose use of the ring nobody has asked for yet
        {
            Locked held(store.lock);
            uint32_t* first = workloads_.find(key);
            for (uint32_t at = first == nullptr ? 0 : *first; at != 0 && unknown == nullptr; at = pool_[at - 1].next) {
                Program& program = pool_[at - 1];
                if (program.frame != kNoSlot && !program.ring_known) {
                    unknown = program.impl;
                }
            }
            if (unknown == nullptr) {
                for (uint32_t at = first == nullptr ? 0 : *first; at != 0; at = pool_[at - 1].next) {
                    Program& program = pool_[at - 1];
                    if (program.frame == kNoSlot) {
                        continue;
                    }
                    const Record& record = store.append(Event::kRun, [&](Record& r) {
                        r.kind = Kind::kProgramFrame;
                        r.address = program.metal_id;
                        r.slot = program.frame;
                        r.place = program.place;
                        r.cores = program.cores;
                        r.program = program.number;
                        r.name = operation(store);
                    });
                    Record& frame = store.table()[program.frame];
                    frame.flags |= kRan;
                    frame.time = record.time;
                }
                return;
            }
        }
        uint64_t ring = metal.has(kCall_program_ring) ? *metal.call<uint32_t*>(kCall_program_ring, unknown, kTensix) : 0;
        Locked held(store.lock);
        if (Program* program = find_program(unknown)) {
            program->ring_known = true;
            if (program->frame != kNoSlot) {
                frame(*program, ring);
            }
        }
    }
}

void Agent::cache_cleared(void* mesh) noexcept {
    Locked held(store.lock);
    uint16_t index = find_device(mesh);
    if (index != kNowhere) {
        store.append(Event::kCacheCleared, [&](Record& r) { r.place = index; });
    }
}

}  // namespace ttmem
