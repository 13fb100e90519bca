// SPDX-License-Identifier: Apache-2.0
// Programs and the workloads they belong to: what is recorded of them, from the first part that is laid out over every
// launch to their end. Every method wants the store's lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "map.h"
#include "meshes.h"
#include "program_parts.h"
#include "slot_array.h"
#include "store.h"

namespace ttmem {

// The chips of a mesh that a program is for: first row, first column, last row, last column. Not known if the mesh has
// other than two dimensions.
struct MeshRange {
    bool known;
    uint32_t corners[4];
};

class Programs {
public:
    Programs(Store& store, Meshes& meshes) : store_(store), meshes_(meshes) {}
    bool create() noexcept { return next_part_.create(); }  // false if there is no memory

    // A program is known by its ProgramImpl, a workload by its MeshWorkloadImpl.

    bool is_compiled(void* impl) const noexcept;
    void compiled(void* impl, uint16_t mesh, uint64_t metal_id, const ProgramKernels& kernels);
    // All its parts of one kind were laid out, on a mesh that has an allocator.
    void laid_out(void* impl, uint16_t mesh, uint64_t metal_id, Kind kind, const std::vector<ProgramPart>& parts);
    void added(void* workload, void* impl, const MeshRange& range);
    void destroyed(void* impl) noexcept;
    void workload_destroyed(void* workload) noexcept;
    void remove_all(uint16_t mesh) noexcept;  // it is about to be closed

    // Records that a workload was launched, unless it ran last on its mesh. If it is not known yet how much of the
    // kernel ring one of its programs uses, that program is returned instead, for set_kernel_ring(), and nothing is
    // recorded.
    [[gnu::hot]] void* launch(void* workload);
    void set_kernel_ring(void* impl, uint64_t bytes);

    // The mesh whose allocator the programs of a workload use; kNoMesh if it has none.
    uint16_t mesh_of_workload(void* workload) const noexcept;

private:
    struct Program {
        void* impl;
        uint32_t workload;  // an index + 1
        uint32_t number;
        uint32_t next;   // in the same workload, an index + 1
        uint32_t frame;  // slot of the program itself in the live table
        uint32_t parts;  // first of them, a slot + 1
        uint32_t cores;  // blob
        MeshRange range;
        uint64_t metal_id;
        uint16_t parent;  // the mesh with the allocator
        uint16_t mesh;    // what it runs on: the same, or a submesh of it
        bool has_mesh, compiled, ring_known;
    };

    struct alignas(64) Workload {  // one cache line
        uint32_t number;
        uint32_t first;  // of its programs, an index + 1
        // What a launch needs: of every program is known how much of the kernel ring it uses, and this of one of them.
        bool ready;
        uint16_t parent;
        uint32_t program, frame;  // kNoSlot: none has a frame
        uint64_t metal_id;
    };

    Program* find(void* impl) noexcept;
    Program& find_or_make(void* impl);
    void set_mesh(Program& program, uint16_t parent);
    [[gnu::hot]] Workload* find_workload(void* workload) noexcept;
    Workload& find_or_make_workload(void* workload);
    void* prepare(Workload& workload) noexcept;
    void not_ready(const Program& program) noexcept;
    void leave_workload(Program& program) noexcept;
    void write_frame(Program& program, uint64_t ring);
    void replace_parts(Program& program, Kind first, Kind last, const std::vector<ProgramPart>& parts);
    void add_part(Program& program, const ProgramPart& part);
    void move_to(Program& program, uint16_t mesh);
    void remove(Program& program) noexcept;

    // What a launch needs comes first.
    Store& store_;
    Meshes& meshes_;
    Map workload_indices_;  // MeshWorkloadImpl -> index
    std::vector<Workload> workloads_;
    Map indices_;  // ProgramImpl -> index
    std::vector<Program> programs_;
    std::vector<uint32_t> spare_, spare_workloads_;  // indices
    SlotArray<uint32_t> next_part_;                  // slot -> slot + 1 of the next part of the same program
    uint32_t last_number_ = 0, last_workload_ = 0;
};

}  // namespace ttmem
