// SPDX-License-Identifier: Apache-2.0
// What the agent knows about the process it lives in: meshes with their allocators, programs with their parts. The
// hooks call these methods; none of them waits, or holds the lock while it calls into tt-metal. What tt-metal throws
// at a question of ours is caught by the hook that asked.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "metal.h"
#include "store.h"

namespace ttmem {

// A circular or dataflow buffer, scratchpad or kernel of a program, as a hook found it.
struct Part {
    Kind kind;
    uint8_t flags;
    uint64_t address;
    uint32_t per_core;
    Cores cores;
    uint32_t name;  // blob, 0 for none
};

// What the allocator itself says about one class of memory, per bank.
struct Statistics {
    uint64_t total, allocated, free, largest_free;
    uint64_t room[28];  // tt-metal returns it by value; some versions return more
};

constexpr uint16_t kNoMesh = 0xffff;    // an index that stands for none
constexpr int kTypes[] = {0, 1, 3, 4};  // BufferType codes that have banks
constexpr uint32_t kTensix = 0;         // the first of the core types that kernels are for

enum VirtualSlot { kArch = 2, kId = 3 };  // of IDevice's virtual functions

inline uint32_t virtual_call(void* device, VirtualSlot slot) {
    return reinterpret_cast<uint32_t (*)(void*)>((*static_cast<void***>(device))[slot])(device);
}

inline bool is_mesh(const Metal& metal, void* device) {
    return *static_cast<void**>(device) == static_cast<char*>(metal.calls[kCall_mesh_vtable]) + 16;
}

class Agent {
public:
    // The agent of this process, made at the first call; nullptr if it is switched off or there is no memory.
    // A forked child gets one of its own.
    static Agent* current(const Metal& metal) noexcept {
        Agent* agent = started();
        bool there = agent != nullptr && metal.coverage != 0 && !paused.load(std::memory_order_relaxed);
        return __builtin_expect(there, 1) ? agent : find(metal);
    }
    // The same also for a libtt_metal of which nothing can be tracked: so that somebody says so.
    static Agent* announce(const Metal& metal) noexcept;
    // The one that was made already; nullptr also in a forked child that has not touched tt-metal yet.
    static Agent* started() noexcept {
        Guard* page = guard_.load(std::memory_order_acquire);
        return page == nullptr ? nullptr : page->agent.load(std::memory_order_acquire);
    }
    static bool is_off() noexcept;

    void opened(const Metal& metal, void* mesh);
    void closing(const Metal& metal, void* mesh);
    void closed(const Metal& metal, void* mesh) noexcept;

    [[gnu::hot]] void allocated(const Metal& metal, void* allocator, void* buffer, uint64_t address, bool binary);
    [[gnu::hot]] uint16_t freeing(const Metal& metal, void* allocator, void* buffer);  // gives what freed() wants
    [[gnu::hot]] void freed(const Metal& metal, void* allocator, uint16_t index);
    void freeing_all(void* allocator, bool gone);

    // tt-metal threw. Where is known by an allocator, a device or a workload; the others are nullptr.
    void failed(const char* text, void* allocator, void* device, void* workload) noexcept;

    void compiled(const Metal& metal, void* program, void* device);
    void placed(const Metal& metal, void* program, void* device, Kind kind, const std::vector<Part>& parts);
    void scratchpads_placed(const Metal& metal, void* program, void* device);
    void program_gone(void* program) noexcept;
    void added(const Metal& metal, void* workload, void* program, const void* range);
    void workload_gone(void* workload) noexcept;
    [[gnu::hot]] void ran(const Metal& metal, void* workload);
    void cache_cleared(void* mesh) noexcept;

    Store store;
    std::atomic<uint32_t> in_flight{0};  // calls between the entry of an allocator hook and its end

private:
    friend Agent* start(const Metal& metal) noexcept;

    // A page that a forked child finds empty: so it knows that it is not the process it was copied from.
    struct Guard {
        std::atomic<Agent*> agent;
    };
    static std::atomic<Guard*> guard_;
    static Agent* find(const Metal& metal) noexcept;

    // What the agent alone knows of a mesh. A Mesh (layout.h) is what readers of the ring see of one: a whole mesh, a
    // rectangle of its chips that programs run on (submesh_of), or a single chip, which counts as a mesh of 1x1. homes_
    // has one Home for each Mesh, with the same index. That of a part has only chips and grid: buffers belong to the
    // whole.
    struct alignas(64) Home {
        uint64_t ours[5];  // reserved bytes per bank; up to next_audit it is what every buffer needs, one cache line
        uint64_t buffers;
        uint32_t unit;
        uint32_t events;
        uint64_t next_audit;
        void* allocator;
        void* device;
        uint32_t rows, columns;
        std::vector<uint16_t> chips;
        Cores grid;
        uint64_t earlier[5];  // reserved bytes per bank from before we could see, which are told nowhere
        uint64_t earlier_buffers;
    };

    // A buffer as the allocator hook found it.
    struct Seen {
        Kind kind;
        uint8_t layout, flags;
        uint16_t cores;
        uint64_t address, size, per_bank;
        uint64_t object;  // the Buffer itself
    };

    struct Program {
        void* impl;
        void* workload;
        uint32_t number;
        uint32_t next;   // in the same workload, an index + 1
        uint32_t frame;  // its slot in the live table
        uint32_t parts;  // first of them, a slot + 1
        uint32_t cores;  // blob
        uint32_t range[4];
        uint64_t metal_id;
        uint16_t home;  // the whole mesh
        uint16_t mesh;  // what it runs on
        bool has_range, has_home, compiled, ring_known;
    };

    uint16_t home_of(const Metal& metal, void* allocator, void* device);
    [[gnu::hot]] uint16_t find_allocator(void* allocator) noexcept;
    uint16_t find_device(void* device) const noexcept;
    // `first` is a buffer of its that was just allocated; nullptr if it was found in another way.
    uint16_t make_home(const Metal& metal, void* allocator, void* device, const Seen* first);
    uint16_t chip_index(const Metal& metal, void* device);
    uint16_t free_mesh() const noexcept;
    void count_earlier(const Metal& metal, const Mesh& mesh, Home& home, const Seen* first);
    [[gnu::cold]] void free_unknown(uint16_t index, void* allocator, uint32_t type, uint64_t per_bank) noexcept;
    void set_mesh(uint16_t index, const Mesh& mesh, Home&& home);
    // The mesh for a rectangle of a mesh's chips (first row, first column, last row, last column), made at its first
    // use. The whole mesh itself if the rectangle covers it, or if its chips are not known or there is no room.
    uint16_t submesh_of(uint16_t home, const uint32_t range[4]);
    bool is_per_core(const Metal& metal, void* buffer) const;
    [[gnu::hot]] void keep(uint16_t index, const Seen& seen) noexcept;
    void free_slot(uint32_t slot, uint8_t flags) noexcept;
    void close_home(uint16_t index);
    void free_all(uint16_t index);
    bool audit(const Metal& metal, uint16_t index, void* allocator, uint32_t expected);
    [[gnu::hot]] void after_change(const Metal& metal, uint16_t index, void* allocator);

    Program& program_of(void* impl);
    void settle(Program& program, uint16_t home);
    void frame(Program& program, uint64_t ring);
    void replace(Program& program, Kind first, Kind last, const std::vector<Part>& parts);
    void add_part(Program& program, const Part& part);
    void move(Program& program, uint16_t mesh);
    void drop(Program& program);
    [[gnu::hot]] void* launch(void* workload);
    Program* find_program(void* impl) noexcept;

    bool forked_ = false;
    std::atomic<bool> late_{false};      // there may be buffers from before we could see
    std::atomic<bool> per_core_{false};  // there was a buffer with an address of its own on each core
    // TT_METAL_ALLOCATOR_MODE_HYBRID: L1 pages are rounded one by one, chips have lists of their own.
    bool hybrid_ = false;
    std::vector<Home> homes_;
    Map allocators_;  // AllocatorImpl -> mesh
    void* last_allocator_ = nullptr;
    uint16_t last_found_ = 0;
    Map unfollowed_;  // AllocatorImpl that we have seen and do not follow, or no longer -> 1
    Map buffers_;     // mesh, kind and address -> slot, of buffers in lock step: so the allocator itself frees them
    Map objects_;     // Buffer -> slot, of those with an address of their own on each core
    Map programs_;    // ProgramImpl -> index
    Map workloads_;   // MeshWorkloadImpl -> index + 1 of its first program
    std::vector<Program> pool_;
    std::vector<uint32_t> spare_;
    uint32_t* next_part_ = nullptr;  // slot -> slot + 1 of the next part of the same program
    uint64_t* object_of_ = nullptr;  // slot -> key in objects_
    uint32_t last_number_ = 0;
    uint16_t last_mesh_ = 0;
};

}  // namespace ttmem
