// SPDX-License-Identifier: Apache-2.0
// The functions that stand in for tt-metal's. Each calls the real one with what it was given, returns what that
// returned and lets through what it threw; beside that it reports to the agent. A free is reported before it happens
// and an allocation after, so that an address is never reported as taken twice.
#include <cstdint>
#include <exception>
#include <vector>

#include "agent.h"
#include "operations.h"
#include "stacks.h"

#define TTMEM_EXPORT extern "C" __attribute__((visibility("default")))
#define TTMEM_HOT __attribute__((hot))
#define TTMEM_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

using ttmem::Agent;
using ttmem::Cores;
using ttmem::Kind;
using ttmem::Metal;
using ttmem::metal_of;
using ttmem::ProgramPart;

namespace {

// What a program lays out while one of its allocate_… functions runs on this thread.
struct PendingParts {
    void* program;
    Kind kind;
    const void* device;  // of the first report; those for the mesh's other chips repeat it
    std::vector<ProgramPart> parts;
    PendingParts* outer;
};
thread_local PendingParts* innermost = nullptr;

class CollectParts {
public:
    CollectParts(void* program, Kind kind) : pending{program, kind, nullptr, {}, innermost} { innermost = &pending; }
    ~CollectParts() { innermost = pending.outer; }
    CollectParts(const CollectParts&) = delete;
    CollectParts& operator=(const CollectParts&) = delete;

    PendingParts pending;
};

struct Span {
    const uint32_t* data;
    size_t size;
};

// Reports to the agent. tt-metal may throw at a question of the agent (about a kernel that was never built, say): its
// caller must not see that.
template <typename Work>
void report(const Metal& metal, Agent* agent, Work work) noexcept {
    if (agent == nullptr) {
        return;
    }
    try {
        work();
    } catch (...) {
        metal.swallowed();
        __atomic_add_fetch(&agent->store.header()->failures, 1, __ATOMIC_RELAXED);
    }
}

// Calls tt-metal. What it throws goes on to the caller and is reported to the agent, once.
template <typename Work>
auto watched(const Metal& metal, void* allocator, void* device, void* workload, Work work) -> decltype(work()) {
    ttmem::of_thread.passing = nullptr;
    try {
        return work();
    } catch (const std::exception& error) {
        if (ttmem::of_thread.passing != &error) {
            ttmem::of_thread.passing = &error;
            Agent* agent = Agent::current(metal);
            if (agent != nullptr) {
                ttmem::look_at_stack();
                agent->failed(error.what(), allocator, device, workload);
            }
        }
        throw;
    }
}

void lay_out(ttmem::Hook hook, Kind kind, void* program, void* device, void* caller) {
    const Metal& metal = metal_of(caller);
    CollectParts collected(program, kind);
    watched(metal, nullptr, device, nullptr, [&] { metal.real<void (*)(void*, void*)>(hook)(program, device); });
    if (metal.covers(kind)) {
        Agent* agent = Agent::current(metal);
        ttmem::look_at_stack();
        report(metal, agent, [&] { agent->laid_out(metal, program, device, kind, collected.pending.parts); });
    }
}

void free_all(ttmem::Hook hook, void* allocator, bool destroyed, void* caller) {
    const Metal& metal = metal_of(caller);
    Agent* agent = Agent::current(metal);
    report(metal, agent, [&] { destroyed ? agent->allocator_destroyed(allocator) : agent->freeing_all(allocator); });
    metal.real<void (*)(void*)>(hook)(allocator);
}

}  // namespace

// Declares every hook under the name of the function that it stands in for.
#define TTMEM_HOOK(name, result, parameters, groups, unknown, symbol) \
    TTMEM_EXPORT result ttmem_##name parameters __asm__(symbol);
#include "symbols.def"

// -- allocator ------------------------------------------------------------------------------------------------------

TTMEM_HOT uint64_t ttmem_allocate_buffer(void* self, void* buffer) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    Agent* agent = Agent::current(metal);
    ttmem::InFlight::Call call;
    if (agent != nullptr) {
        agent->allocating(call);
    }
    uint64_t address = watched(metal, self, nullptr, nullptr, [&] {
        return metal.real<uint64_t (*)(void*, void*)>(metal.allocate_buffer)(self, buffer);
    });
    ttmem::look_at_stack();
    report(metal, agent,
           [&] { agent->allocated(metal, self, buffer, address, ttmem::of_thread.loading_binaries > 0, call); });
    return address;
}

TTMEM_HOT void ttmem_deallocate_buffer(void* self, void* buffer) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    Agent* agent = Agent::current(metal);
    ttmem::InFlight::Call call;
    uint16_t mesh = ttmem::kNoMesh;
    report(metal, agent, [&] { mesh = agent->freeing(metal, self, buffer, call); });
    metal.real<void (*)(void*, void*)>(metal.deallocate_buffer)(self, buffer);
    report(metal, agent, [&] { agent->freed(metal, self, mesh); });
}

void ttmem_deallocate_buffers(void* self) { free_all(ttmem::kHook_deallocate_buffers, self, false, TTMEM_CALLER); }

void ttmem_clear(void* self) { free_all(ttmem::kHook_clear, self, false, TTMEM_CALLER); }

void ttmem_allocator_gone(void* self) { free_all(ttmem::kHook_allocator_gone, self, true, TTMEM_CALLER); }

void ttmem_allocator_gone_whole(void* self) { free_all(ttmem::kHook_allocator_gone_whole, self, true, TTMEM_CALLER); }

// -- devices --------------------------------------------------------------------------------------------------------

bool ttmem_mesh_open(void* self, void* mesh, uint8_t queues, size_t small, size_t trace, size_t worker, Span banks,
                     bool minimal) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    auto real = metal.real<bool (*)(void*, void*, uint8_t, size_t, size_t, size_t, Span, bool)>(ttmem::kHook_mesh_open);
    bool opened = real(self, mesh, queues, small, trace, worker, banks, minimal);
    Agent* agent = Agent::announce(metal);
    report(metal, agent, [&] {
        if (metal.coverage != 0) {
            ttmem::look_at_stack();
            agent->opened(metal, mesh);
            ttmem::follow_operations(agent->store);
        }
    });
    return opened;
}

bool ttmem_mesh_close(void* self, void* mesh) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    Agent* agent = Agent::current(metal);
    report(metal, agent, [&] { agent->closing(metal, mesh); });
    bool closed = metal.real<bool (*)(void*, void*)>(ttmem::kHook_mesh_close)(self, mesh);
    report(metal, agent, [&] { agent->closed(mesh); });
    return closed;
}

// -- programs -------------------------------------------------------------------------------------------------------

void ttmem_compile(void* self, void* device, bool slow) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    watched(metal, nullptr, device, nullptr,
            [&] { metal.real<void (*)(void*, void*, bool)>(ttmem::kHook_compile)(self, device, slow); });
    if (metal.covers(Kind::kKernel)) {
        Agent* agent = Agent::current(metal);
        ttmem::look_at_stack();
        report(metal, agent, [&] { agent->compiled(metal, self, device); });
    }
}

void ttmem_allocate_cbs(void* self, void* device) {
    lay_out(ttmem::kHook_allocate_cbs, Kind::kCb, self, device, TTMEM_CALLER);
}

void ttmem_allocate_dfbs(void* self, void* device) {
    lay_out(ttmem::kHook_allocate_dfbs, Kind::kDfb, self, device, TTMEM_CALLER);
}

void ttmem_allocate_scratchpads(void* self, void* device) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    watched(metal, nullptr, device, nullptr,
            [&] { metal.real<void (*)(void*, void*)>(ttmem::kHook_allocate_scratchpads)(self, device); });
    if (metal.covers(Kind::kScratchpad)) {
        Agent* agent = Agent::current(metal);
        ttmem::look_at_stack();
        report(metal, agent, [&] { agent->scratchpads_laid_out(metal, self, device); });
    }
}

void ttmem_cb_placed(void* self, const void* cores, uint64_t address, uint64_t size, bool global, const void* device) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    metal.real<void (*)(void*, const void*, uint64_t, uint64_t, bool, const void*)>(ttmem::kHook_cb_placed)(
        self, cores, address, size, global, device);
    PendingParts* pending = innermost;
    if (pending == nullptr || pending->kind != Kind::kCb || !metal.covers(Kind::kCb)) {
        return;
    }
    if (pending->device == nullptr) {
        pending->device = device;
    }
    if (pending->device == device) {
        ProgramPart part{Kind::kCb, global ? ttmem::kShared : uint8_t{0}, address, static_cast<uint32_t>(size), {}, 0};
        const auto& ranges = *metal.call<const std::vector<uint64_t>*>(ttmem::kCall_core_ranges, cores);
        for (size_t i = 0; i + 4 <= ranges.size(); i += 4) {  // a CoreRange is four words
            part.cores.add_range(ranges.data() + i);
        }
        pending->parts.push_back(part);
    }
}

void ttmem_dfb_placed(void* self, uint64_t address, uint64_t size, uint64_t base) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    metal.real<void (*)(void*, uint64_t, uint64_t, uint64_t)>(ttmem::kHook_dfb_placed)(self, address, size, base);
    PendingParts* pending = innermost;
    if (pending == nullptr || pending->kind != Kind::kDfb) {
        return;
    }
    ProgramPart part{Kind::kDfb, 0, address, static_cast<uint32_t>(size), {}, 0};
    part.cores.add_range(static_cast<const uint64_t*>(self));  // it begins with its core range
    for (ProgramPart& other : pending->parts) {
        if (other.address == address && other.per_core == part.per_core) {  // one buffer over several ranges
            other.cores.merge(part.cores);
            return;
        }
    }
    pending->parts.push_back(part);
}

void ttmem_program_gone(void* self) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    Agent* agent = Agent::current(metal);
    report(metal, agent, [&] { agent->program_destroyed(self); });
    metal.real<void (*)(void*)>(ttmem::kHook_program_gone)(self);
}

void ttmem_add_program(void* self, const void* range, void** program) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    void* moved = *program;  // a Program is a pointer to its ProgramImpl, and about to be moved from
    metal.real<void (*)(void*, const void*, void**)>(ttmem::kHook_add_program)(self, range, program);
    Agent* agent = Agent::current(metal);
    report(metal, agent, [&] { agent->added(metal, self, moved, range); });
}

void ttmem_workload_gone(void* self) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    Agent* agent = Agent::current(metal);
    report(metal, agent, [&] { agent->workload_destroyed(self); });
    metal.real<void (*)(void*)>(ttmem::kHook_workload_gone)(self);
}

TTMEM_HOT void ttmem_load_binaries(void* self, void* queue) {
    struct Loading {
        Loading() { ttmem::of_thread.loading_binaries++; }
        ~Loading() { ttmem::of_thread.loading_binaries--; }
    } loading;
    const Metal& metal = metal_of(TTMEM_CALLER);
    metal.real<void (*)(void*, void*)>(metal.load_binaries)(self, queue);
}

TTMEM_HOT void ttmem_enqueue(void* queue, void** workload, bool blocking) {
    const Metal& metal = ttmem::metal_of_launcher(TTMEM_CALLER);
    void* impl = *workload;  // a MeshWorkload is a pointer to its MeshWorkloadImpl
    watched(metal, nullptr, nullptr, impl,
            [&] { metal.real<void (*)(void*, void**, bool)>(metal.enqueue)(queue, workload, blocking); });
    Agent* agent = Agent::current(metal);
    ttmem::look_at_stack();
    report(metal, agent, [&] { agent->launched(metal, impl); });
}

// Only for what they throw: programs that cannot be laid out, a kernel ring or trace region that is too small.
TTMEM_HOT void ttmem_compile_workload(void* self, void* mesh) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    watched(metal, nullptr, mesh, nullptr,
            [&] { metal.real<void (*)(void*, void*)>(metal.compile_workload)(self, mesh); });
}

void ttmem_fill_trace(void* queue, void* buffer, size_t first, size_t second, size_t third) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    watched(metal, nullptr, nullptr, nullptr, [&] {
        metal.real<void (*)(void*, void*, size_t, size_t, size_t)>(ttmem::kHook_fill_trace)(queue, buffer, first,
                                                                                            second, third);
    });
}

void ttmem_clear_cache(void* self) {
    const Metal& metal = metal_of(TTMEM_CALLER);
    metal.real<void (*)(void*)>(ttmem::kHook_clear_cache)(self);
    Agent* agent = Agent::current(metal);
    report(metal, agent, [&] { agent->cache_cleared(self); });
}

// -- for benchmarks and tests ---------------------------------------------------------------------------------------

TTMEM_EXPORT void ttmem_agent_pause(int pause) { ttmem::of_process.paused.store(pause != 0); }

// 1 if the agent loads the fields of a Buffer itself, 0 if it calls the functions that return them, -1 if no
// libtt_metal is known yet. Of several copies, the first.
TTMEM_EXPORT int ttmem_agent_reads_fields() {
    bool known = __atomic_load_n(&ttmem::first_copy.end, __ATOMIC_ACQUIRE) != 0;
    return known ? ttmem::first_copy.fields.known : -1;
}
