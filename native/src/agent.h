// SPDX-License-Identifier: Apache-2.0
// The agent of this process: what the hooks call. It owns the store and its lock, and the objects that keep track of
// meshes, buffers and programs. Calls go in one direction only: hooks, agent, then programs, buffers and audits, then
// meshes, then the store.
//
// No method waits, or holds the lock while it calls into tt-metal. What tt-metal throws at a question of the agent is
// caught by the hook that asked.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "audits.h"
#include "buffers.h"
#include "in_flight.h"
#include "meshes.h"
#include "metal.h"
#include "process_traits.h"
#include "program_parts.h"
#include "programs.h"
#include "store.h"

namespace ttmem {

class Agent {
public:
    // The agent of this process, made at the first call; nullptr if it is switched off or there is no memory.
    // A forked child gets one of its own.
    static Agent* current(const Metal& metal) noexcept {
        Agent* agent = started();
        bool there = agent != nullptr && metal.coverage != 0 && !of_process.paused.load(std::memory_order_relaxed);
        return __builtin_expect(there, 1) ? agent : find(metal);
    }
    // The same, also for a libtt_metal of which nothing can be tracked: readers are to see the reason.
    static Agent* announce(const Metal& metal) noexcept;
    // The one that was made already; nullptr also in a forked child that has not used tt-metal yet.
    static Agent* started() noexcept {
        Guard* page = static_cast<Guard*>(of_process.guard.load(std::memory_order_acquire));
        return page == nullptr ? nullptr : page->agent.load(std::memory_order_acquire);
    }
    static bool is_off() noexcept;

    // A MeshDevice.
    void opened(const Metal& metal, void* device);
    void closing(const Metal& metal, void* device);
    void closed(void* device) noexcept;
    void cache_cleared(void* device) noexcept;

    // A buffer is about to be allocated: the call begins here and ends in allocated().
    [[gnu::hot]] void allocating(InFlight::Call& call) noexcept {
        call.begin(in_flight_);
        store.prefetch();
        meshes_.prefetch();
    }
    [[gnu::hot]] void allocated(const Metal& metal, void* allocator, void* buffer, uint64_t address, bool binary,
                                InFlight::Call& call);
    // The call begins here, and ends after freed(). Returns the index of the buffer's mesh for that, kNoMesh if the
    // buffer was not in the table.
    [[gnu::hot]] uint16_t freeing(const Metal& metal, void* allocator, void* buffer, InFlight::Call& call);
    [[gnu::hot]] void freed(const Metal& metal, void* allocator, uint16_t mesh) {
        if (mesh != kNoMesh) {
            audits_.after_change(metal, mesh, allocator, /* in flight */ 1);
        }
    }
    void freeing_all(void* allocator);
    void allocator_destroyed(void* allocator);

    // A ProgramImpl and its IDevice; a MeshWorkloadImpl.
    void compiled(const Metal& metal, void* program, void* device);
    void laid_out(const Metal& metal, void* program, void* device, Kind kind, const std::vector<ProgramPart>& parts);
    void scratchpads_laid_out(const Metal& metal, void* program, void* device);
    void program_destroyed(void* program) noexcept;
    void added(const Metal& metal, void* workload, void* program, const void* range);
    void workload_destroyed(void* workload) noexcept;
    [[gnu::hot]] void launched(const Metal& metal, void* workload);

    // tt-metal threw. One of the three pointers is known and names the mesh; the others are nullptr.
    void failed(const char* text, void* allocator, void* device, void* workload) noexcept;

private:
    // The beginning of a page that a forked child finds empty: so it knows that it is not the process it was copied
    // from. The first agent of a process is on that page itself: one cache line less for a hook to load.
    struct Guard {
        std::atomic<Agent*> agent{nullptr};
    };
    Guard guard_;  // the first member, and used only on that page

public:
    Store store;

private:
    static Agent* find(const Metal& metal) noexcept;
    static Agent* start(const Metal& metal) noexcept;
    static Agent* make(const Metal& metal, uint32_t pid) noexcept;
    explicit Agent(const ProcessTraits& traits) : traits_(traits) {}

    // The mesh of an allocator, or if that is nullptr of a device; it is opened if it is not known yet.
    uint16_t mesh_of(const Metal& metal, void* allocator, void* device);
    // `first` is a buffer that was just allocated there; nullptr if the mesh was found in another way.
    uint16_t open_mesh(const Metal& metal, void* allocator, void* device, const NewBuffer* first);
    void close_mesh(uint16_t mesh);  // wants the lock held
    [[gnu::cold]] void ask_kernel_ring(const Metal& metal, void* program);

    // On three cache lines, for a buffer or a launch.
    alignas(64) InFlight in_flight_;
    Meshes meshes_{store};
    const ProcessTraits traits_;
    alignas(64) Buffers buffers_{store, meshes_, traits_};
    Audits audits_{store, meshes_, traits_, in_flight_};
    alignas(64) Programs programs_{store, meshes_};
};

}  // namespace ttmem
