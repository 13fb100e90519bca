// SPDX-License-Identifier: Apache-2.0
#include "programs.h"

#include "operations.h"

namespace ttmem {

Programs::Program* Programs::find(void* impl) noexcept {
    uint32_t* index = indices_.find(reinterpret_cast<uint64_t>(impl));
    return index == nullptr ? nullptr : &programs_[*index];
}

Programs::Program& Programs::find_or_make(void* impl) {
    if (Program* known = find(impl)) {
        return *known;
    }
    uint32_t index;
    if (!spare_.empty()) {
        index = spare_.back();
        spare_.pop_back();
    } else {
        index = static_cast<uint32_t>(programs_.size());
        programs_.emplace_back();
    }
    Program& program = programs_[index];
    program = {};
    program.impl = impl;
    program.number = ++last_number_;
    program.frame = kNoSlot;
    indices_.insert(reinterpret_cast<uint64_t>(impl), index);
    return program;
}

// A program runs on a whole mesh, or on the submesh that its workload names.
void Programs::set_mesh(Program& program, uint16_t parent) {
    program.parent = parent;
    program.has_mesh = true;
    program.mesh = program.range.known ? meshes_.submesh(parent, program.range.corners) : parent;
}

bool Programs::is_compiled(void* impl) const noexcept {
    const uint32_t* index = indices_.find(reinterpret_cast<uint64_t>(impl));
    return index != nullptr && programs_[*index].compiled;
}

void Programs::compiled(void* impl, uint16_t mesh, uint64_t metal_id, const ProgramKernels& kernels) {
    Program& program = find_or_make(impl);
    program.metal_id = metal_id;
    program.compiled = true;
    program.cores = store_.core_set(kernels.cores);
    set_mesh(program, mesh);
    write_frame(program, 0);
    replace_parts(program, Kind::kKernel, Kind::kDispatchKernel, kernels.parts);
}

void Programs::laid_out(void* impl, uint16_t mesh, uint64_t metal_id, Kind kind,
                        const std::vector<ProgramPart>& parts) {
    Program& program = find_or_make(impl);
    program.metal_id = metal_id;
    set_mesh(program, mesh);
    if (program.frame == kNoSlot) {
        write_frame(program, 0);
    }
    replace_parts(program, kind, kind, parts);
}

// Records the program itself, or what has changed about it. `ring` is the bytes of the kernel ring that it uses.
void Programs::write_frame(Program& program, uint64_t ring) {
    uint32_t slot = program.frame == kNoSlot ? store_.take_slot() : program.frame;
    uint8_t flags = program.frame == kNoSlot || slot == kNoSlot ? 0 : store_.table()[slot].flags;
    const Record& record = store_.append(Event::kProgram, [&](Record& r) {
        r.kind = Kind::kProgramFrame;
        r.flags = flags;
        r.address = program.metal_id;
        r.size = ring;
        r.per_bank = static_cast<uint32_t>(ring);
        r.slot = slot;
        r.mesh = program.mesh;
        r.cores = program.cores;
        r.program = program.number;
        r.name = operation(store_);
    });
    store_.keep(slot, record);
    program.frame = slot;
}

void Programs::add_part(Program& program, const ProgramPart& part) {
    uint32_t count = part.cores.count();
    if (count == 0) {
        return;  // on no core it takes no memory: an operation on an empty tensor has such kernels
    }
    uint32_t slot = store_.allocate([&](Record& r) {
        r.kind = part.kind;
        r.flags = part.flags;
        r.address = part.address;
        r.size = uint64_t{part.per_core} * count;
        r.per_bank = part.per_core;
        r.mesh = program.mesh;
        r.core_count = static_cast<uint16_t>(count);
        r.cores = store_.core_set(part.cores);
        r.program = program.number;
        r.name = part.name != 0 ? part.name : operation(store_);
    });
    if (slot != kNoSlot) {
        next_part_[slot] = program.parts;
        program.parts = slot + 1;
    }
}

// The parts of the kinds from first to last are now these.
void Programs::replace_parts(Program& program, Kind first, Kind last, const std::vector<ProgramPart>& parts) {
    uint32_t* link = &program.parts;
    while (*link != 0) {
        uint32_t slot = *link - 1;
        Kind kind = store_.table()[slot].kind;
        if (kind >= first && kind <= last) {
            *link = next_part_[slot];
            store_.free(slot, 0);
        } else {
            link = &next_part_[slot];
        }
    }
    for (const ProgramPart& part : parts) {
        add_part(program, part);
    }
}

// The program and all its parts are on other chips of the same mesh.
void Programs::move_to(Program& program, uint16_t mesh) {
    if (mesh == program.mesh) {
        return;
    }
    program.mesh = mesh;
    if (program.frame != kNoSlot) {
        write_frame(program, store_.table()[program.frame].size);
    }
    for (uint32_t at = program.parts; at != 0; at = next_part_[at - 1]) {
        uint32_t slot = at - 1;
        Record part = store_.table()[slot];
        store_.append(Event::kFreed, [&](Record& r) { r = part; });
        const Record& record = store_.append(Event::kAllocated, [&](Record& r) {
            r = part;
            r.mesh = mesh;
        });
        store_.keep(slot, record);
    }
}

void Programs::remove(Program& program) noexcept {
    if (program.frame != kNoSlot || program.parts != 0) {
        store_.append(Event::kDestroyed, [&](Record& r) {
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
        store_.forget(slot);
    }
    if (program.frame != kNoSlot) {
        store_.forget(program.frame);
    }
    program.parts = 0;
    program.frame = kNoSlot;
    program.has_mesh = false;
    program.compiled = false;
    program.ring_known = false;
}

void Programs::destroyed(void* impl) noexcept {
    Program* program = find(impl);
    if (program == nullptr) {
        return;
    }
    remove(*program);
    uint32_t index = static_cast<uint32_t>(program - programs_.data());
    if (program->workload != nullptr) {
        uint32_t* link = workloads_.find(reinterpret_cast<uint64_t>(program->workload));
        while (link != nullptr && *link != 0) {
            if (*link == index + 1) {
                *link = program->next;
                break;
            }
            link = &programs_[*link - 1].next;
        }
    }
    indices_.erase(reinterpret_cast<uint64_t>(impl));
    program->impl = nullptr;
    spare_.push_back(index);
}

void Programs::added(void* workload, void* impl, const MeshRange& range) {
    Program& program = find_or_make(impl);
    uint32_t index = static_cast<uint32_t>(&program - programs_.data());
    program.range = range;
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
    if (program.has_mesh && range.known) {  // it was compiled before it was known which chips it is for
        move_to(program, meshes_.submesh(program.parent, range.corners));
    }
}

void Programs::workload_destroyed(void* workload) noexcept {
    uint64_t key = reinterpret_cast<uint64_t>(workload);
    uint32_t* first = workloads_.find(key);
    if (first == nullptr) {
        return;
    }
    for (uint32_t at = *first; at != 0;) {
        Program& program = programs_[at - 1];
        at = program.next;
        program.workload = nullptr;
        program.next = 0;
    }
    workloads_.erase(key);
}

void Programs::remove_all(uint16_t mesh) noexcept {
    for (Program& program : programs_) {
        if (program.impl != nullptr && program.has_mesh && program.parent == mesh) {
            remove(program);
        }
    }
}

void* Programs::launch(void* workload) {
    const uint32_t* found = workloads_.find(reinterpret_cast<uint64_t>(workload));
    const uint32_t first = found == nullptr ? 0 : *found;
    for (uint32_t at = first; at != 0; at = programs_[at - 1].next) {
        const Program& program = programs_[at - 1];
        if (program.frame != kNoSlot && !program.ring_known) {
            return program.impl;
        }
    }
    for (uint32_t at = first; at != 0; at = programs_[at - 1].next) {
        const Program& program = programs_[at - 1];
        if (program.frame == kNoSlot) {
            continue;
        }
        const Record& record = store_.append(Event::kRun, [&](Record& r) {
            r.kind = Kind::kProgramFrame;
            r.address = program.metal_id;
            r.slot = program.frame;
            r.mesh = program.mesh;
            r.cores = program.cores;
            r.program = program.number;
            r.name = operation(store_);
        });
        Record& frame = store_.table()[program.frame];
        frame.flags |= kRan;
        frame.time = record.time;
    }
    return nullptr;
}

void Programs::set_kernel_ring(void* impl, uint64_t bytes) {
    Program* program = find(impl);
    if (program == nullptr) {
        return;
    }
    program->ring_known = true;
    // On mock devices older wheels count a program without its kernels. Such an answer is not used.
    for (uint32_t at = program->parts; at != 0; at = next_part_[at - 1]) {
        const Record& part = store_.table()[at - 1];
        bytes = part.kind == Kind::kKernel && part.per_bank > bytes ? 0 : bytes;
    }
    if (program->frame != kNoSlot) {
        write_frame(*program, bytes);
    }
}

uint16_t Programs::mesh_of_workload(void* workload) const noexcept {
    const uint32_t* first = workloads_.find(reinterpret_cast<uint64_t>(workload));
    if (first == nullptr || *first == 0) {
        return kNoMesh;
    }
    const Program& program = programs_[*first - 1];
    return program.has_mesh ? program.parent : kNoMesh;
}

}  // namespace ttmem
