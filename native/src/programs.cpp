// SPDX-License-Identifier: Apache-2.0
// The part of the agent that deals with programs and their workloads: what is recorded of them, from the first part
// that is laid out over every launch to their end.
#include <cstring>

#include "agent.h"
#include "operations.h"

namespace ttmem {

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
    program.mesh = program.has_range ? submesh_of(home, program.range) : home;
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
        r.mesh = program.mesh;
        r.cores = program.cores;
        r.program = program.number;
        r.name = operation(store);
    });
    store.keep(slot, record);
    program.frame = slot;
}

void Agent::add_part(Program& program, const Part& part) {
    uint32_t count = part.cores.count();
    if (count == 0) {
        return;  // on no core it takes no memory: an operation on an empty tensor has such kernels
    }
    uint32_t slot = store.allocate([&](Record& r) {
        r.kind = part.kind;
        r.flags = part.flags;
        r.address = part.address;
        r.size = uint64_t{part.per_core} * count;
        r.per_bank = part.per_core;
        r.mesh = program.mesh;
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

// To other chips of its mesh, with everything it has.
void Agent::move(Program& program, uint16_t mesh) {
    if (mesh == program.mesh) {
        return;
    }
    program.mesh = mesh;
    if (program.frame != kNoSlot) {
        frame(program, store.table()[program.frame].size);
    }
    for (uint32_t at = program.parts; at != 0; at = next_part_[at - 1]) {
        uint32_t slot = at - 1;
        Record thing = store.table()[slot];
        store.append(Event::kFreed, [&](Record& r) { r = thing; });
        const Record& record = store.append(Event::kAllocated, [&](Record& r) {
            r = thing;
            r.mesh = mesh;
        });
        store.keep(slot, record);
    }
}

void Agent::drop(Program& program) {
    if (program.frame != kNoSlot || program.parts != 0) {
        store.append(Event::kDestroyed, [&](Record& r) {
            r.kind = Kind::kProgramFrame;
            r.address = program.metal_id;
            r.slot = program.frame;
            r.mesh = program.mesh;
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
        move(program, submesh_of(program.home, program.range));
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
    while (void* impl = launch(workload)) {
        uint64_t ring = metal.has(kCall_program_ring) ? *metal.call<uint32_t*>(kCall_program_ring, impl, kTensix) : 0;
        Locked held(store.lock);
        if (Program* program = find_program(impl)) {
            program->ring_known = true;
            // On mock devices older wheels count a program without its kernels: that is no answer.
            for (uint32_t at = program->parts; at != 0; at = next_part_[at - 1]) {
                const Record& part = store.table()[at - 1];
                ring = part.kind == Kind::kKernel && part.per_bank > ring ? 0 : ring;
            }
            if (program->frame != kNoSlot) {
                frame(*program, ring);
            }
        }
    }
}

// Records that every program of a workload runs. If nobody has asked yet how much of the kernel ring one of them uses,
// that one is returned instead, and nothing is recorded.
void* Agent::launch(void* workload) {
    Locked held(store.lock);
    const uint32_t* found = workloads_.find(reinterpret_cast<uint64_t>(workload));
    const uint32_t first = found == nullptr ? 0 : *found;
    for (uint32_t at = first; at != 0; at = pool_[at - 1].next) {
        const Program& program = pool_[at - 1];
        if (program.frame != kNoSlot && !program.ring_known) {
            return program.impl;
        }
    }
    for (uint32_t at = first; at != 0; at = pool_[at - 1].next) {
        const Program& program = pool_[at - 1];
        if (program.frame == kNoSlot) {
            continue;
        }
        const Record& record = store.append(Event::kRun, [&](Record& r) {
            r.kind = Kind::kProgramFrame;
            r.address = program.metal_id;
            r.slot = program.frame;
            r.mesh = program.mesh;
            r.cores = program.cores;
            r.program = program.number;
            r.name = operation(store);
        });
        Record& frame = store.table()[program.frame];
        frame.flags |= kRan;
        frame.time = record.time;
    }
    return nullptr;
}

void Agent::cache_cleared(void* mesh) noexcept {
    Locked held(store.lock);
    uint16_t index = find_device(mesh);
    if (index != kNoMesh) {
        store.append(Event::kCacheCleared, [&](Record& r) { r.mesh = index; });
    }
}

}  // namespace ttmem
