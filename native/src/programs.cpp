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

Programs::Workload* Programs::find_workload(void* workload) noexcept {
    const uint32_t* index = workload_indices_.find(reinterpret_cast<uint64_t>(workload));
    return index == nullptr ? nullptr : &workloads_[*index];
}

Programs::Workload& Programs::find_or_make_workload(void* workload) {
    if (Workload* known = find_workload(workload)) {
        return *known;
    }
    uint32_t index;
    if (!spare_workloads_.empty()) {
        index = spare_workloads_.back();
        spare_workloads_.pop_back();
    } else {
        index = static_cast<uint32_t>(workloads_.size());
        workloads_.emplace_back();
    }
    workloads_[index] = {++last_workload_, 0, false, kNoMesh, 0, kNoSlot, 0};
    workload_indices_.insert(reinterpret_cast<uint64_t>(workload), index);
    return workloads_[index];
}

// What is remembered for the launches of its workload may have changed. Its next launch is recorded: readers are to
// know that this program ran as well.
void Programs::not_ready(const Program& program) noexcept {
    if (program.workload == 0) {
        return;
    }
    Workload& workload = workloads_[program.workload - 1];
    workload.ready = false;
    workload.frame = kNoSlot;
    if (program.has_mesh) {
        meshes_.forget_launch(program.parent, workload.number);
    }
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
    not_ready(program);
}

// Records the program itself, or what has changed about it. `ring` is the bytes of the kernel ring that it uses.
void Programs::write_frame(Program& program, uint64_t ring) {
    uint32_t slot = program.frame == kNoSlot ? store_.take_slot() : program.frame;
    bool rewritten = program.frame != kNoSlot;
    uint8_t flags = rewritten ? store_.table()[slot].flags : 0;
    uint64_t ran_at = rewritten ? store_.table()[slot].time : 0;
    uint32_t workload = program.workload == 0 ? 0 : workloads_[program.workload - 1].number;
    const Record& record = store_.append(Event::kProgram, [&](Record& r) {
        r.kind = Kind::kProgramFrame;
        r.flags = flags;
        r.address = program.metal_id;
        r.size = ring;
        r.per_bank = workload;
        r.slot = slot;
        r.mesh = program.mesh;
        r.cores = program.cores;
        r.program = program.number;
        r.name = operation(store_);
    });
    store_.keep(slot, record);
    if ((flags & kRan) != 0) {
        store_.table()[slot].time = ran_at;
    }
    program.frame = slot;
    not_ready(program);
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
        store_.clear(slot);
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
    not_ready(program);
    program.parts = 0;
    program.frame = kNoSlot;
    program.has_mesh = false;
    program.compiled = false;
    program.ring_known = false;
}

// The workload goes on without the program. If its launches are marked on the frame of this program, they are from now
// on marked on that of another.
void Programs::leave_workload(Program& program) noexcept {
    if (program.workload == 0) {
        return;
    }
    const uint32_t index = static_cast<uint32_t>(&program - programs_.data());
    const Record* frame = program.frame == kNoSlot ? nullptr : &store_.table()[program.frame];
    bool ran = frame != nullptr && (frame->flags & kRan) != 0;
    uint32_t* link = &workloads_[program.workload - 1].first;
    while (*link != 0) {
        Program& other = programs_[*link - 1];
        if (*link == index + 1) {
            *link = other.next;
            continue;
        }
        if (ran && other.frame != kNoSlot) {
            Record& heir = store_.table()[other.frame];
            bool later = (heir.flags & kRan) != 0 && heir.time > frame->time;
            heir.flags |= kRan;
            heir.time = later ? heir.time : frame->time;
            ran = false;
        }
        link = &other.next;
    }
    not_ready(program);
    program.workload = 0;
    program.next = 0;
}

void Programs::destroyed(void* impl) noexcept {
    Program* program = find(impl);
    if (program == nullptr) {
        return;
    }
    leave_workload(*program);
    remove(*program);
    indices_.erase(reinterpret_cast<uint64_t>(impl));
    program->impl = nullptr;
    spare_.push_back(static_cast<uint32_t>(program - programs_.data()));
}

void Programs::added(void* workload, void* impl, const MeshRange& range) {
    Program& program = find_or_make(impl);
    Workload& found = find_or_make_workload(workload);
    const uint32_t number = static_cast<uint32_t>(&found - workloads_.data()) + 1;
    const bool other = program.workload != number;
    program.range = range;
    if (other) {
        leave_workload(program);
        program.workload = number;
        program.next = found.first;
        found.first = static_cast<uint32_t>(&program - programs_.data()) + 1;
    }
    not_ready(program);
    // It was compiled before it was known which workload and chips it is for.
    const uint16_t before = program.mesh;
    if (program.has_mesh && range.known) {
        move_to(program, meshes_.submesh(program.parent, range.corners));
    }
    if (other && program.frame != kNoSlot && program.mesh == before) {
        write_frame(program, store_.table()[program.frame].size);
    }
}

void Programs::workload_destroyed(void* workload) noexcept {
    Workload* found = find_workload(workload);
    if (found == nullptr) {
        return;
    }
    for (uint32_t at = found->first; at != 0;) {
        Program& program = programs_[at - 1];
        at = program.next;
        program.workload = 0;
        program.next = 0;
    }
    workload_indices_.erase(reinterpret_cast<uint64_t>(workload));
    spare_workloads_.push_back(static_cast<uint32_t>(found - workloads_.data()));
}

void Programs::remove_all(uint16_t mesh) noexcept {
    for (Program& program : programs_) {
        if (program.impl != nullptr && program.has_mesh && program.parent == mesh) {
            remove(program);
        }
    }
}

// Returns a program of which it is to be asked how much of the kernel ring it uses; nullptr if all is known.
void* Programs::prepare(Workload& workload) noexcept {
    for (uint32_t at = workload.first; at != 0; at = programs_[at - 1].next) {
        const Program& program = programs_[at - 1];
        if (program.frame == kNoSlot) {
            continue;
        }
        if (!program.ring_known) {
            return program.impl;
        }
        workload.parent = program.parent;
        workload.program = program.number;
        workload.frame = program.frame;
        workload.metal_id = program.metal_id;
    }
    workload.ready = true;
    return nullptr;
}

void* Programs::launch(void* impl) {
    Workload* workload = find_workload(impl);
    if (workload == nullptr) {
        return nullptr;
    }
    if (__builtin_expect(!workload->ready, 0)) {
        if (void* unknown = prepare(*workload)) {
            return unknown;
        }
    }
    if (workload->frame == kNoSlot || !meshes_.launched(workload->parent, workload->number)) {
        return nullptr;
    }
    Record& frame = store_.table()[workload->frame];
    __builtin_prefetch(&frame, 1);
    const Record& record = store_.append(Event::kRun, [&](Record& r) {
        r.kind = Kind::kProgramFrame;
        r.address = workload->metal_id;
        r.per_bank = workload->number;
        r.slot = workload->frame;
        r.mesh = workload->parent;
        r.program = workload->program;
        r.name = operation(store_);
    });
    frame.flags |= kRan;
    frame.time = record.time;
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
    const uint32_t* index = workload_indices_.find(reinterpret_cast<uint64_t>(workload));
    if (index == nullptr || workloads_[*index].first == 0) {
        return kNoMesh;
    }
    const Program& program = programs_[workloads_[*index].first - 1];
    return program.has_mesh ? program.parent : kNoMesh;
}

}  // namespace ttmem
