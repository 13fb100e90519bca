// SPDX-License-Identifier: Apache-2.0
// A workload on the replacement for tt-metal. It keeps its own account of live allocations and prints it at the end,
// one JSON object per line. The test compares it with the records of the agent.
//
//   workload SCENARIO [SEED [THREADS [STEPS]]]
//
// It never prints a pointer, a time or a process id: with one thread, its output is the same on every run.
#ifdef WORKLOAD_LINKED
#include "fake_metal.h"
#else
#define fake_api fake_api_is_looked_up
#include "fake_metal.h"
#undef fake_api
#endif

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#ifdef WORKLOAD_LINKED
// As ttnn calls it: from another object than libtt_metal.so.
extern "C" void enqueue_mesh_workload(void* queue, void* workload, bool blocking) __asm__(
    "_ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb");
#endif

namespace {

constexpr uint32_t kDram = 0, kL1 = 1, kL1Small = 3, kTrace = 4;
constexpr uint32_t kInterleaved = 0, kSharded = 2;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "workload: %s\n", what);
    _exit(3);
}

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

struct Allocation {
    uint64_t size, per_bank;
    uint32_t layout, cores;
    bool binary;
};

struct Ran {
    fake::ProgramSpec spec;
    bool compiled, laid_out, ran;
};

// The live allocations of one allocator, and the programs of its mesh.
struct Account {
    std::string label;
    std::map<std::pair<uint32_t, uint64_t>, Allocation> buffers;  // by type and address, as tt-metal frees
    std::map<uint64_t, Ran> programs;
};

struct Held {
    void* buffer;
    uint32_t type;
};

// A mesh (or chip) with its account. The rule of the account is the allocator's: an address belongs to the thread that
// got it last, so it leaves the account before it is freed and enters it after it was allocated.
struct Device {
    const fake::Api* api;
    void* device;
    Account account;
    std::mutex mutex;

    Device(const fake::Api* functions, void* pointer, const std::string& label) : api(functions), device(pointer) {
        account.label = label;
    }

    Held allocate(uint32_t type, uint64_t size, uint32_t layout, uint32_t cores) {
        void* buffer = api->allocate(device, type, size, layout, cores);
        note(type, api->address(buffer), size, layout, cores, false);
        return {buffer, type};
    }
    void note(uint32_t type, uint64_t address, uint64_t size, uint32_t layout, uint32_t cores, bool binary) {
        uint64_t parts = layout == kSharded ? cores : fake::kBankCount[type];
        uint64_t per_bank = round_up(round_up((size + parts - 1) / parts, 16), fake::kUnit);
        std::lock_guard<std::mutex> held(mutex);
        account.buffers[{type, address}] = {size, per_bank, layout, layout == kSharded ? cores : 0, binary};
    }
    void free(const Held& held) {
        {
            std::lock_guard<std::mutex> guard(mutex);
            account.buffers.erase({held.type, api->address(held.buffer)});
        }
        api->free(held.buffer);
    }
    void free_all() {
        account.buffers.clear();
        api->free_all(device);
    }
};

void print(const Account& account) {
    std::string line = "{\"device\": \"" + account.label + "\", \"buffers\": [";
    const char* comma = "";
    for (const auto& [key, allocation] : account.buffers) {
        char text[160];
        std::snprintf(text, sizeof(text), "%s[%u, %llu, %llu, %llu, %u, %u, %d]", comma, key.first,
                      static_cast<unsigned long long>(key.second), static_cast<unsigned long long>(allocation.size),
                      static_cast<unsigned long long>(allocation.per_bank), allocation.layout, allocation.cores,
                      allocation.binary);
        line += text;
        comma = ", ";
    }
    line += "], \"programs\": [";
    comma = "";
    for (const auto& [id, program] : account.programs) {
        const fake::ProgramSpec& s = program.spec;
        char text[280];
        std::snprintf(text, sizeof(text),
                      "%s{\"id\": %llu, \"cbs\": %u, \"dfbs\": %u, \"scratchpads\": %u, \"kernels\": %u, "
                      "\"cores\": [%u, %u, %u, %u], \"chips\": %u, \"global\": %d, \"compiled\": %d, "
                      "\"laid_out\": %d, \"ran\": %d}",
                      comma, static_cast<unsigned long long>(id), s.cbs, s.dfbs, s.scratchpads, s.kernels, s.x, s.y,
                      s.x_end, s.y_end, s.rows * s.columns, s.global, program.compiled, program.laid_out, program.ran);
        line += text;
        comma = ", ";
    }
    std::printf("%s]}\n", line.c_str());
}

// -- actions of a thread --------------------------------------------------------------------------------------------

fake::ProgramSpec random_program(std::mt19937& random, uint32_t rows, uint32_t columns) {
    fake::ProgramSpec spec{};
    spec.cbs = random() % 4;
    spec.dfbs = random() % 3;
    spec.kernels = 1 + random() % 5;
    spec.scratchpads = random() % 3;
    spec.x = random() % 4;
    spec.y = random() % 4;
    spec.x_end = spec.x + random() % 4;
    spec.y_end = spec.y + random() % 4;
    bool whole = random() % 2 == 0;
    spec.rows = whole ? rows : 1;
    spec.columns = whole ? columns : 1;
    spec.global = spec.cbs > 0 && random() % 3 == 0;
    return spec;
}

struct Workload {
    void* workload;
    std::vector<uint64_t> programs;
};

Workload make_workload(Device& mesh, std::mt19937& random, uint32_t rows, uint32_t columns) {
    Workload made{mesh.api->make_workload(), {}};
    uint32_t count = 1 + random() % 2;
    for (uint32_t i = 0; i < count; i++) {
        fake::ProgramSpec spec = random_program(random, rows, columns);
        made.programs.push_back(mesh.api->add_program(made.workload, &spec));
        std::lock_guard<std::mutex> held(mesh.mutex);
        mesh.account.programs[made.programs.back()] = {spec, false, false, false};
    }
    return made;
}

void run(Device& mesh, const Workload& workload, bool outside) {
    uint64_t before = mesh.api->binary_address(workload.workload);
#ifdef WORKLOAD_LINKED
    if (outside) {
        fake_run_from_outside(mesh.device, workload.workload, enqueue_mesh_workload);
    } else
#endif
    {
        (void)outside;
        mesh.api->run(mesh.device, workload.workload);
    }
    uint64_t binary = mesh.api->binary_address(workload.workload);
    if (before == 0 && binary != 0) {
        mesh.note(kDram, binary, 4096, kInterleaved, 0, true);
    }
    std::lock_guard<std::mutex> held(mesh.mutex);
    for (uint64_t id : workload.programs) {
        Ran& program = mesh.account.programs[id];
        program.compiled = program.laid_out = program.ran = true;
    }
}

void destroy(Device& mesh, const Workload& workload) {
    {
        std::lock_guard<std::mutex> held(mesh.mutex);
        for (uint64_t id : workload.programs) {
            mesh.account.programs.erase(id);
        }
    }
    mesh.api->destroy_workload(workload.workload);  // the binaries stay: they are never freed here
}

Held allocate_something(Device& device, std::mt19937& random) {
    static const uint32_t kTypes[] = {kDram, kDram, kL1, kL1, kL1, kL1Small, kTrace};
    uint32_t type = kTypes[random() % 7];
    uint32_t layout = type == kL1 && random() % 3 == 0 ? kSharded : kInterleaved;
    uint64_t size = type == kL1Small || type == kTrace ? 1 + random() % 4000 : 1 + random() % 200000;
    return device.allocate(type, size, layout, 1 + random() % 64);
}

void churn(Device& device, uint32_t seed, uint32_t steps, std::vector<Held>& kept) {
    std::mt19937 random(seed);
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t what = random() % 100;
        if (what < 3) {
            bool thrown = false;
            try {
                device.api->allocate(device.device, kL1, uint64_t{1} << 40, kInterleaved, 0);
            } catch (const std::runtime_error& error) {
                thrown = std::strcmp(error.what(), "Out of Memory") == 0;
            }
            if (!thrown) {
                fail("no Out of Memory where there is no memory");
            }
        } else if (what < 50 || kept.empty()) {
            try {
                kept.push_back(allocate_something(device, random));
            } catch (const std::runtime_error&) {
                // It may also be full by chance.
            }
        } else {
            size_t index = random() % kept.size();
            device.free(kept[index]);
            kept[index] = kept.back();
            kept.pop_back();
        }
    }
}

void run_programs(Device& mesh, uint32_t seed, uint32_t steps, uint32_t rows, uint32_t columns,
                  std::vector<Workload>& kept) {
    std::mt19937 random(seed);
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t what = random() % 10;
        if (what < 4 || kept.empty()) {
            kept.push_back(make_workload(mesh, random, rows, columns));
        } else if (what < 8) {
            run(mesh, kept[random() % kept.size()], random() % 2 == 0);
        } else {
            size_t index = random() % kept.size();
            destroy(mesh, kept[index]);
            kept[index] = kept.back();
            kept.pop_back();
        }
    }
}

void on_threads(uint32_t count, const std::function<void(uint32_t)>& work) {
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i < count; i++) {
        threads.emplace_back(work, i);
    }
    work(0);
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// -- scenarios ------------------------------------------------------------------------------------------------------

struct Options {
    std::string scenario;
    uint32_t seed, threads, steps;
};

// Opens, fills, empties at once, fills again and closes a mesh; threads end in between, and pointers are reused.
void life(const fake::Api* api, const Options& options, const std::string& prefix) {
    for (uint32_t round = 0; round < 3; round++) {
        Device mesh(api, api->open(2, 2, 0), prefix + "mesh " + std::to_string(2 * round));
        Device other(api, api->open(1, 2, 0), prefix + "mesh " + std::to_string(2 * round + 1));
        std::vector<std::vector<Held>> kept(options.threads), others(options.threads);
        std::vector<std::vector<Workload>> programs(options.threads);
        auto work = [&](uint32_t i) {
            uint32_t seed = options.seed * 1000 + round * 100 + i;
            churn(mesh, seed, options.steps, kept[i]);
            churn(other, seed + 50, options.steps / 4, others[i]);
            run_programs(mesh, seed, options.steps / 10, 2, 2, programs[i]);
        };
        on_threads(options.threads, work);
        if (round == 1) {
            mesh.free_all();
            for (auto& one : kept) {
                // tt-metal frees by address: the destructor of an old tensor frees the current buffer at its address.
                for (Held& held : one) {
                    held.type == kTrace ? mesh.free(held) : api->abandon(held.buffer);
                }
                one.clear();
            }
            api->clear_cache(mesh.device);
        }
        on_threads(options.threads, work);
        if (round == 2) {
            fake::ProgramSpec clash{};
            clash.kernels = clash.rows = clash.columns = 1;
            clash.clash = true;
            void* workload = api->make_workload();
            uint64_t id = api->add_program(workload, &clash);
            try {
                api->run(mesh.device, workload);
                fail("no clash");
            } catch (const std::runtime_error& error) {
                std::printf("{\"error\": \"%s\"}\n", error.what());
            }
            mesh.account.programs[id] = {clash, true, false, false};
            Device chip(api, api->chip(other.device, 1), prefix + "chip 1");
            chip.allocate(kL1, 6400, kInterleaved, 0);
            print(mesh.account);
            print(other.account);
            print(chip.account);
            std::printf("{\"allocator says\": [%llu, %llu]}\n",
                        static_cast<unsigned long long>(api->buffer_count(mesh.device)),
                        static_cast<unsigned long long>(api->buffer_count(other.device)));
            return;
        }
        api->close(mesh.device);
        api->close(other.device);
        for (auto& one : programs) {
            for (Workload& workload : one) {
                api->destroy_workload(workload.workload);  // cached programs die after their mesh
            }
        }
    }
}

void wait_for_word() {
    char word;
    if (read(0, &word, 1) != 1) {
        fail("nobody said go on");
    }
}

void fork_in_the_middle(const fake::Api* api, const Options& options) {
    Device mesh(api, api->open(1, 2, 0), "mesh 0");
    std::vector<Held> kept;
    churn(mesh, options.seed, options.steps, kept);
    std::vector<Workload> programs;
    run_programs(mesh, options.seed, 20, 1, 2, programs);
    // Other threads allocate while this thread forks.
    std::vector<std::vector<Held>> busy(options.threads);
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i < options.threads; i++) {
        threads.emplace_back([&, i] { churn(mesh, options.seed + i, options.steps, busy[i]); });
    }
    std::fflush(stdout);
    mesh.mutex.lock();  // the account's, not the allocator's: only the forking thread is sure to hold neither
    pid_t child = options.threads > 1 ? 0 : fork();
    if (options.threads > 1) {
        mesh.mutex.unlock();
        for (std::thread& thread : threads) {
            thread.join();
        }
        mesh.mutex.lock();
        child = fork();
    }
    mesh.mutex.unlock();
    if (child == 0) {
        mesh.account.buffers.clear();  // earlier allocations are reported by the parent
        mesh.account.programs.clear();
        std::vector<Held> own;
        for (size_t i = 0; i < kept.size(); i++) {  // half before it has anything of its own, half after
            if (i == kept.size() / 2) {
                churn(mesh, options.seed + 55, options.steps, own);
                usleep(120000);  // the agent audits itself ten times a second
            }
            mesh.free(kept[i]);
        }
        churn(mesh, options.seed + 56, options.steps, own);
        on_threads(2, [&](uint32_t i) {
            std::vector<Held> mine;
            churn(mesh, options.seed + 77 + i, options.steps, mine);
            for (size_t k = 0; k < mine.size(); k += 2) {
                mesh.free(mine[k]);
            }
        });
        std::vector<Workload> mine;
        run_programs(mesh, options.seed + 5, 20, 1, 2, mine);
        mesh.account.label = "child's mesh 0";
        print(mesh.account);
        std::fflush(stdout);
        _exit(7);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
        fail("the child did not end as it should");
    }
    churn(mesh, options.seed + 1000, options.steps, kept);
    print(mesh.account);
}

void refuse_memfd() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fail("no seccomp");
    }
}

void out_of_descriptors(const fake::Api* api, const Options& options) {
    rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    rlimit none = {0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);  // open descriptors stay open; new ones are refused
    Device mesh(api, api->open(1, 1, 3), "mesh 0");
    std::vector<Held> kept;
    churn(mesh, options.seed, options.steps, kept);
    std::vector<Workload> programs;
    run_programs(mesh, options.seed, 20, 1, 1, programs);
    setrlimit(RLIMIT_NOFILE, &before);
    wait_for_word();  // the test has received the memory
    churn(mesh, options.seed + 1, options.steps, kept);
    print(mesh.account);
}

void many_lives(const fake::Api* api, const Options& options) {
    for (uint32_t i = 0; i <= options.steps; i++) {
        Device mesh(api, api->open(1, 1, 0), "mesh " + std::to_string(i));
        mesh.allocate(kL1, 6400 + 64 * i, kInterleaved, 0);
        if (i == options.steps) {
            print(mesh.account);
            return;
        }
        api->close(mesh.device);
    }
}

// Threads that take the same few addresses from each other as fast as they can.
void tug_of_war(const fake::Api* api, const Options& options) {
    Device mesh(api, api->open(1, 1, 0), "mesh 0");
    on_threads(options.threads, [&](uint32_t) {
        for (uint32_t step = 0; step < options.steps; step++) {
            mesh.free(mesh.allocate(kL1, 2048, kInterleaved, 0));
        }
    });
    mesh.allocate(kL1, 2048, kInterleaved, 0);
    print(mesh.account);
}

// Buffers with a separate address on each core: many have the same first address, and the heap reuses the memory of a
// Buffer for the next one.
void per_core(const fake::Api* api, const Options& options) {
    Device mesh(api, api->open(1, 1, 0), "mesh 0");
    void* chip = api->chip(mesh.device, 0);
    struct Own {
        void* buffer;
        uint64_t size;
        uint32_t cores;
    };
    std::vector<std::vector<Own>> kept(options.threads);
    on_threads(options.threads, [&](uint32_t i) {
        std::mt19937 random(options.seed * 100 + i);
        for (uint32_t step = 0; step < options.steps; step++) {
            if (random() % 100 < 55 || kept[i].empty()) {
                uint32_t first = random() % 56, cores = 1 + random() % 8;
                uint64_t size = cores * (32u + 32u * (random() % 64));
                kept[i].push_back({api->allocate_per_core(chip, size, first, cores), size, cores});
            } else {
                size_t index = random() % kept[i].size();
                api->free(kept[i][index].buffer);
                kept[i][index] = kept[i].back();
                kept[i].pop_back();
            }
        }
    });
    mesh.allocate(kL1, 6400, kInterleaved, 0);
    print(mesh.account);
    std::string line = "{\"device\": \"chip 0\", \"programs\": [], \"buffers\": [";
    const char* comma = "";
    for (const auto& one : kept) {
        for (const Own& own : one) {
            char text[160];
            std::snprintf(text, sizeof(text), "%s[1, %llu, %llu, %llu, 2, %u, 0]", comma,
                          static_cast<unsigned long long>(api->address(own.buffer)),
                          static_cast<unsigned long long>(own.size),
                          static_cast<unsigned long long>(own.size / own.cores), own.cores);
            line += text;
            comma = ", ";
        }
    }
    std::printf("%s]}\n{\"allocator says\": %llu}\n", line.c_str(),
                static_cast<unsigned long long>(api->buffer_count(chip)));
}

// The agent starts when there are already buffers.
void late(const fake::Api* api, const Options& options) {
    auto* pause = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "ttmem_agent_pause"));
    if (pause == nullptr) {
        fail("no agent");
    }
    pause(1);
    Device mesh(api, api->open(1, 1, 0), "mesh 0");
    Device other(api, api->open(1, 1, 1), "mesh 1");
    std::vector<Held> before, own, unseen;
    churn(mesh, options.seed, options.steps, before);
    churn(other, options.seed + 1, options.steps, unseen);
    mesh.account.buffers.clear();  // from here on, only what the agent can see
    other.account.buffers.clear();
    pause(0);
    std::printf("{\"earlier\": %zu}\n", before.size() + unseen.size());
    for (const Held& held : unseen) {
        other.free(held);
    }
    for (size_t i = 0; i < before.size(); i++) {  // half before it has anything of its own, half after
        if (i == before.size() / 2) {
            churn(mesh, options.seed + 55, options.steps, own);
        }
        mesh.free(before[i]);
    }
    usleep(120000);  // the agent audits itself ten times a second
    churn(mesh, options.seed + 56, options.steps, own);
    print(mesh.account);
}

const fake::Api* library(const char* variable, int flags = RTLD_LOCAL) {
#ifdef WORKLOAD_LINKED
    (void)variable;
    (void)flags;
    return fake_api();
#else
    void* handle = dlopen(getenv(variable), RTLD_NOW | flags);
    if (handle == nullptr) {
        fail(dlerror());
    }
    return reinterpret_cast<const fake::Api* (*)()>(dlsym(handle, "fake_api"))();
#endif
}

uint32_t threads_now() {
    FILE* status = std::fopen("/proc/self/status", "r");
    char line[256];
    uint32_t count = 0;
    while (status != nullptr && std::fgets(line, sizeof(line), status) != nullptr) {
        std::sscanf(line, "Threads: %u", &count);
    }
    std::fclose(status);
    return count;
}

}  // namespace

int main(int argc, char** argv) {
    auto number = [&](int index, uint32_t otherwise) {
        return argc > index ? static_cast<uint32_t>(std::strtoul(argv[index], nullptr, 10)) : otherwise;
    };
    Options options{argc > 1 ? argv[1] : "life", number(2, 1), number(3, 1), number(4, 400)};
    if (options.scenario == "seccomp") {
        refuse_memfd();
    } else if (options.scenario == "small_files") {
        rlimit small = {1 << 20, 1 << 20};
        setrlimit(RLIMIT_FSIZE, &small);
    }
    const fake::Api* api = library("FAKE_METAL", options.scenario == "deepbind" ? RTLD_DEEPBIND : RTLD_LOCAL);
    if (options.scenario == "fork") {
        fork_in_the_middle(api, options);
    } else if (options.scenario == "descriptors") {
        out_of_descriptors(api, options);
    } else if (options.scenario == "many_lives") {
        many_lives(api, options);
    } else if (options.scenario == "per_core") {
        per_core(api, options);
    } else if (options.scenario == "late") {
        late(api, options);
    } else if (options.scenario == "tug_of_war") {
        tug_of_war(api, options);
    } else if (options.scenario == "two") {
#ifndef WORKLOAD_LINKED
        const fake::Api* second = library("FAKE_METAL_TOO");
        if (second == api) {
            fail("there are no two copies");
        }
        Options others{"life", options.seed + 9, options.threads, options.steps};
        std::thread beside([&] { life(second, others, "second "); });
        life(api, options, "first ");
        beside.join();
#endif
    } else {
        life(api, options, "");
    }
    if (options.scenario == "fields") {
        auto* reads_fields = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "ttmem_agent_reads_fields"));
        if (reads_fields == nullptr) {
            fail("no agent");
        }
        std::printf("{\"reads fields\": %d}\n", reads_fields());
    } else if (options.scenario == "threads") {
        std::printf("{\"threads\": %u}\n", threads_now());
    } else if (options.scenario == "exit") {
        std::fflush(stdout);
        std::thread([] { _exit(5); }).join();  // like a process that is ended by another thread
    } else if (options.scenario == "wait") {
        std::fflush(stdout);
        wait_for_word();
    }
    return 0;
}
