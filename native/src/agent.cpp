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
#include "mesh_description.h"
#include "operations.h"
#include "phases.h"

namespace ttmem {

namespace {

std::atomic<uint32_t> starter{0};  // pid of the process one of whose threads is starting an agent
std::atomic<bool> off{false};

void* map_private(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

bool is_hybrid() {
    const char* mode = getenv("TT_METAL_ALLOCATOR_MODE_HYBRID");
    return mode != nullptr && mode[0] == '1';
}

// The chips that a MeshCoordinateRange covers.
MeshRange read_range(const Metal& metal, const void* range) {
    struct Span {
        const uint32_t* data;
        uint64_t size;
    };
    MeshRange found{};
    if (metal.has(kCall_range_start) && metal.has(kCall_range_end) && metal.has(kCall_coordinates)) {
        Span from = metal.call<Span>(kCall_coordinates, metal.call<const void*>(kCall_range_start, range));
        Span to = metal.call<Span>(kCall_coordinates, metal.call<const void*>(kCall_range_end, range));
        found.known = from.size == 2 && to.size == 2 && from.data != nullptr && to.data != nullptr;
        if (found.known) {
            std::memcpy(found.corners, from.data, 2 * sizeof(uint32_t));
            std::memcpy(found.corners + 2, to.data, 2 * sizeof(uint32_t));
        }
    }
    return found;
}

}  // namespace

// -- the agent of this process --------------------------------------------------------------------------------------

bool Agent::is_off() noexcept {
    const char* wish = getenv("TTMEM_AGENT");
    return off.load() || (wish != nullptr && std::strcmp(wish, "0") == 0);
}

Agent* Agent::find(const Metal& metal) noexcept {
    return off || metal.coverage == 0 || of_process.paused.load() ? nullptr : start(metal);
}

Agent* Agent::announce(const Metal& metal) noexcept {
    Agent* agent = current(metal);
    return agent != nullptr || off || of_process.paused.load() ? agent : start(metal);
}

Agent* Agent::start(const Metal& metal) noexcept {
    uint32_t pid = static_cast<uint32_t>(getpid());
    for (;;) {
        uint32_t other = starter.load();
        if (other == pid) {  // another thread of this process is starting it
            sched_yield();
        } else if (starter.compare_exchange_weak(other, pid)) {
            break;
        }
        if (Agent* agent = started()) {
            return agent;
        }
    }
    Agent* agent = started();
    off = is_off();
    if (agent == nullptr && !off) {
        agent = make(metal, pid);
        off = off.load() || agent == nullptr;  // no second try if there is no memory
    }
    starter.store(0);
    return agent;
}

Agent* Agent::make(const Metal& metal, uint32_t pid) noexcept {
    Guard* page = static_cast<Guard*>(of_process.guard.load());
    const ProcessTraits traits{/* forked */ page != nullptr, is_hybrid()};
    constexpr size_t kPage = 4096;
    static_assert(sizeof(Agent) <= kPage);
    void* memory = map_private(kPage);
    if (memory == nullptr || (page == nullptr && madvise(memory, kPage, MADV_WIPEONFORK) != 0)) {
        return nullptr;
    }
    Agent* agent = new (memory) Agent(traits);
    if (page == nullptr) {
        page = &agent->guard_;
    }
    if (!agent->buffers_.create() || !agent->programs_.create() || !agent->store.create(pid)) {
        return nullptr;
    }
    Header* header = agent->store.header();
    header->coverage = metal.coverage;
    std::memcpy(header->wheel, metal.path, sizeof(header->wheel) - 1);
    std::memcpy(header->trouble, metal.trouble, sizeof(header->trouble) - 1);
    {
        std::lock_guard<ProcessLock> guard(phases.lock);  // a phase is written here or by the thread that begins it
        phases.write_all(agent->store);
        page->agent.store(agent);
        of_process.guard.store(page);
    }
    link_up(agent->store);
    return agent;
}

// -- meshes ---------------------------------------------------------------------------------------------------------

uint16_t Agent::mesh_of(const Metal& metal, void* allocator, void* device) {
    {
        Locked held(store.lock);
        uint16_t found = allocator != nullptr ? meshes_.with_allocator(allocator) : meshes_.with_device(device);
        if (found != kNoMesh) {
            return found;
        }
    }
    return open_mesh(metal, allocator, device, nullptr);
}

uint16_t Agent::open_mesh(const Metal& metal, void* allocator, void* device, const NewBuffer* first) {
    NewMesh mesh{};
    if (!describe(metal, store, allocator, device, mesh)) {
        return kNoMesh;
    }
    bool quiet = in_flight_.count() == (first == nullptr ? 0 : 1);
    buffers_.count_earlier(metal, mesh, first, quiet);
    Locked held(store.lock);
    return meshes_.add(std::move(mesh));
}

void Agent::close_mesh(uint16_t mesh) {
    buffers_.remove_all(mesh);
    programs_.remove_all(mesh);
    meshes_.close(mesh);
}

void Agent::opened(const Metal& metal, void* device) {
    if (!metal.has(kCall_mesh_allocator)) {
        return;  // it becomes known with its first buffer
    }
    void** owner = metal.call<void**>(kCall_mesh_allocator, device);
    if (owner != nullptr && *owner != nullptr) {
        mesh_of(metal, *owner, device);
    }
}

void Agent::closing(const Metal& metal, void* device) {
    uint16_t mesh;
    void* allocator = nullptr;
    {
        Locked held(store.lock);
        mesh = meshes_.with_device(device);
        allocator = mesh == kNoMesh ? nullptr : meshes_[mesh].allocator;
    }
    if (allocator != nullptr) {
        audits_.audit(metal, mesh, allocator, 0);
    }
    Locked held(store.lock);
    if (allocator != nullptr && meshes_[mesh].allocator == allocator) {
        store.append(Event::kClosing, [&](Record& r) { r.mesh = mesh; });
    }
}

void Agent::closed(void* device) noexcept {
    Locked held(store.lock);
    uint16_t mesh = meshes_.with_device(device);
    if (mesh != kNoMesh) {
        close_mesh(mesh);
    }
}

void Agent::cache_cleared(void* device) noexcept {
    Locked held(store.lock);
    uint16_t mesh = meshes_.with_device(device);
    if (mesh != kNoMesh) {
        store.append(Event::kCacheCleared, [&](Record& r) { r.mesh = mesh; });
    }
}

// -- buffers --------------------------------------------------------------------------------------------------------

void Agent::allocated(const Metal& metal, void* allocator, void* buffer, uint64_t address, bool binary,
                      InFlight::Call& call) {
    NewBuffer found{};
    found.address = address;
    found.flags = binary ? kBinary : 0;
    if (!describe_new(metal, traits_, allocator, buffer, found)) {
        return;
    }
    uint16_t mesh;
    {
        Locked held(store.lock);
        mesh = meshes_.with_allocator(allocator);
        if (__builtin_expect(mesh != kNoMesh, 1)) {
            buffers_.add(mesh, found);
            call.end_locked();
        }
    }
    if (mesh == kNoMesh) {
        mesh = open_mesh(metal, allocator, metal.call<void*>(kCall_buffer_device, buffer), &found);
        Locked held(store.lock);
        if (mesh == kNoMesh) {
            meshes_.ignore(allocator);
            return;
        }
        buffers_.add(mesh, found);
        call.end_locked();
    }
    audits_.after_change(metal, mesh, allocator, /* in flight */ 0);
}

uint16_t Agent::freeing(const Metal& metal, void* allocator, void* buffer, InFlight::Call& call) {
    OldBuffer found = describe_old(metal, traits_, buffer, buffers_.any_earlier(), buffers_.any_per_core());
    Locked held(store.lock);
    call.begin_locked(in_flight_);
    uint16_t mesh = meshes_.with_allocator(allocator);
    return buffers_.remove(mesh, allocator, found) ? mesh : kNoMesh;
}

void Agent::freeing_all(void* allocator) {
    Locked held(store.lock);
    uint16_t mesh = meshes_.with_allocator(allocator);
    if (mesh != kNoMesh) {
        buffers_.remove_all(mesh);
    }
}

void Agent::allocator_destroyed(void* allocator) {
    Locked held(store.lock);
    uint16_t mesh = meshes_.with_allocator(allocator);
    if (mesh != kNoMesh) {
        close_mesh(mesh);
    }
}

// -- programs -------------------------------------------------------------------------------------------------------

void Agent::compiled(const Metal& metal, void* program, void* device) {
    {
        Locked held(store.lock);
        if (programs_.is_compiled(program)) {
            return;
        }
    }
    program_made();
    uint16_t mesh = mesh_of(metal, nullptr, device);
    if (mesh == kNoMesh) {
        return;
    }
    Cores grid;
    {
        Locked held(store.lock);
        grid = meshes_[mesh].grid;
    }
    ProgramKernels kernels = kernels_of(metal, store, program, device, grid);
    uint64_t id = metal.call<uint64_t>(kCall_program_id, program);
    Locked held(store.lock);
    programs_.compiled(program, mesh, id, kernels);
}

void Agent::laid_out(const Metal& metal, void* program, void* device, Kind kind,
                     const std::vector<ProgramPart>& parts) {
    if (parts.empty()) {
        return;  // laid out before, or nothing of this kind
    }
    uint16_t mesh = mesh_of(metal, nullptr, device);
    uint64_t id = metal.call<uint64_t>(kCall_program_id, program);
    if (mesh != kNoMesh) {
        Locked held(store.lock);
        programs_.laid_out(program, mesh, id, kind, parts);
    }
}

void Agent::scratchpads_laid_out(const Metal& metal, void* program, void* device) {
    laid_out(metal, program, device, Kind::kScratchpad, scratchpads_of(metal, store, program));
}

void Agent::program_destroyed(void* program) noexcept {
    Locked held(store.lock);
    programs_.destroyed(program);
}

void Agent::added(const Metal& metal, void* workload, void* program, const void* range) {
    MeshRange found = read_range(metal, range);
    Locked held(store.lock);
    programs_.added(workload, program, found);
}

void Agent::workload_destroyed(void* workload) noexcept {
    Locked held(store.lock);
    programs_.workload_destroyed(workload);
}

void Agent::launched(const Metal& metal, void* workload) {
    for (;;) {
        void* program;
        {
            Locked held(store.lock);
            program = programs_.launch(workload);
        }
        if (__builtin_expect(program == nullptr, 1)) {
            return;
        }
        ask_kernel_ring(metal, program);
    }
}

void Agent::ask_kernel_ring(const Metal& metal, void* program) {
    uint64_t bytes = metal.has(kCall_program_ring) ? *metal.call<uint32_t*>(kCall_program_ring, program, kTensix) : 0;
    Locked held(store.lock);
    programs_.set_kernel_ring(program, bytes);
}

// -- failures -------------------------------------------------------------------------------------------------------

void Agent::failed(const char* text, void* allocator, void* device, void* workload) noexcept {
    // What follows is the backtrace, which is long and different each time. Only one name in it matters: of a global
    // circular buffer nothing else tells, and other advice holds for it (analyze/failure_messages.py).
    static constexpr char kGlobal[] = "\nbacktrace:\n --- GlobalCircularBuffer";
    char shortened[1024];  // messages of this kind have some 300 characters
    const char* end = std::strstr(text, "\nbacktrace:");
    size_t length = end == nullptr ? std::strlen(text) : static_cast<size_t>(end - text);
    if (end != nullptr && length + sizeof(kGlobal) <= sizeof(shortened) &&
        std::strstr(end, "GlobalCircularBuffer") != nullptr) {
        std::memcpy(shortened, text, length);
        std::memcpy(shortened + length, kGlobal, sizeof(kGlobal));
        length += sizeof(kGlobal) - 1;
        text = shortened;
    }
    Locked held(store.lock);
    uint16_t mesh = allocator != nullptr  ? meshes_.with_allocator(allocator)
                    : device != nullptr   ? meshes_.with_device(device)
                    : workload != nullptr ? programs_.mesh_of_workload(workload)
                                          : kNoMesh;
    bool room = store.header()->blobs_used < kBlobBytes / 4 * 3;
    store.header()->blobs_full += !room;
    uint32_t blob = room ? store.blob(text, static_cast<uint32_t>(length)) : 0;
    store.append(Event::kFailed, [&](Record& r) {
        r.mesh = mesh;
        r.name = blob;
        r.cores = operation(store);
    });
}

}  // namespace ttmem
