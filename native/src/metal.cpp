// SPDX-License-Identifier: Apache-2.0
#include "metal.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ttmem {

Metal first_copy;

namespace {

const char* const kHookNames[] = {
#define X(name, symbol) symbol,
    TTMEM_HOOKS(X)
#undef X
};
const char* const kHookWords[] = {
#define X(name, symbol) #name,
    TTMEM_HOOKS(X)
#undef X
};
const char* const kCallNames[] = {
#define X(name, symbol) symbol,
    TTMEM_CALLS(X) TTMEM_OLDER(X)
#undef X
};
const char* const kCallWords[] = {
#define X(name, symbol) #name,
    TTMEM_CALLS(X) TTMEM_OLDER(X)
#undef X
};

struct Caller {
    uintptr_t begin, end;
    const Metal* metal;
};

constexpr int kMostCallers = 32;
Metal further[kMostCopies - 1];
std::atomic<int> copy_count{0};
Caller callers[kMostCallers];
std::atomic<int> caller_count{0};
pthread_mutex_t resolving = PTHREAD_MUTEX_INITIALIZER;

struct Object {
    uintptr_t address;  // in: somewhere inside it
    uintptr_t begin, end;
    const ElfW(Dyn)* dynamic;
    ElfW(Addr) base;
    const char* path;
};

Metal& copy(int number) { return number == 0 ? first_copy : further[number - 1]; }

int find_object(dl_phdr_info* info, size_t, void* data) {
    Object& object = *static_cast<Object*>(data);
    uintptr_t begin = ~uintptr_t{0}, end = 0;
    const ElfW(Dyn)* dynamic = nullptr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD) {
            begin = from < begin ? from : begin;
            end = from + part.p_memsz > end ? from + part.p_memsz : end;
        } else if (part.p_type == PT_DYNAMIC) {
            dynamic = reinterpret_cast<const ElfW(Dyn)*>(from);
        }
    }
    if (object.address < begin || object.address >= end) {
        return 0;
    }
    object = {object.address, begin, end, dynamic, info->dlpi_addr, info->dlpi_name};
    return 1;
}

bool object_at(uintptr_t address, Object& object) {
    object = {address, 0, 0, nullptr, 0, ""};
    return dl_iterate_phdr(find_object, &object) != 0;
}

// What a library takes from elsewhere by name: its procedure linkage table, and the rest of its relocations.
struct Linkage {
    const char* strings = nullptr;
    const ElfW(Sym)* symbols = nullptr;
    const ElfW(Rela)* table = nullptr;
    size_t table_bytes = 0;
    const ElfW(Rela)* rest = nullptr;
    size_t rest_bytes = 0;
    bool symbolic = false;

    explicit Linkage(const Object& object) {
        for (const ElfW(Dyn)* entry = object.dynamic; entry != nullptr && entry->d_tag != DT_NULL; entry++) {
            switch (entry->d_tag) {
                case DT_STRTAB: strings = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
                case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
                case DT_JMPREL: table = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
                case DT_PLTRELSZ: table_bytes = entry->d_un.d_val; break;
                case DT_RELA: rest = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
                case DT_RELASZ: rest_bytes = entry->d_un.d_val; break;
                case DT_SYMBOLIC: symbolic = true; break;
                case DT_FLAGS: symbolic = symbolic || (entry->d_un.d_val & DF_SYMBOLIC) != 0; break;
                default: break;
            }
        }
    }
    const char* name(const ElfW(Rela)& entry) const { return strings + symbols[ELF64_R_SYM(entry.r_info)].st_name; }
};

// The address that the loader has filled in for a function of another library, nullptr if it has not yet.
void* bound_to(const Object& object, const Linkage& linkage, const char* name) {
    if (linkage.strings == nullptr || linkage.symbols == nullptr) {
        return nullptr;
    }
    const auto find = [&](const ElfW(Rela)* entries, size_t bytes) -> void* {
        for (size_t i = 0; entries != nullptr && i < bytes / sizeof(ElfW(Rela)); i++) {
            if (ELF64_R_SYM(entries[i].r_info) != 0 && std::strcmp(linkage.name(entries[i]), name) == 0) {
                uintptr_t there = *reinterpret_cast<const uintptr_t*>(object.base + entries[i].r_offset);
                // Before the first call an entry of the table leads back into the library itself.
                return there < object.begin || there >= object.end ? reinterpret_cast<void*>(there) : nullptr;
            }
        }
        return nullptr;
    };
    void* found = find(linkage.table, linkage.table_bytes);
    return found != nullptr ? found : find(linkage.rest, linkage.rest_bytes);
}

// The operator delete that belongs to the operator new which the library calls. Ours is another: the agent has a C++
// runtime of its own, and the program may have replaced both operators.
void (*delete_of(const Object& object, void* handle))(void*) {
    constexpr const char* kName = "_ZdlPv";
    void* found = bound_to(object, Linkage(object), kName);
    if (found == nullptr) {
        found = dlsym(RTLD_DEFAULT, kName);
    }
    if (found == nullptr) {  // as in Python, where the C++ runtime came with the library
        found = dlsym(handle, kName);
    }
    return reinterpret_cast<void (*)(void*)>(found);
}

// Which hooks the library itself calls through its procedure linkage table: only those calls reach us.
uint64_t called_through_table(const Object& object) {
    const Linkage linkage(object);
    if (linkage.strings == nullptr || linkage.symbols == nullptr || linkage.table == nullptr || linkage.symbolic) {
        return 0;
    }
    uint64_t found = 0;
    for (size_t i = 0; i < linkage.table_bytes / sizeof(ElfW(Rela)); i++) {
        const char* name = linkage.name(linkage.table[i]);
        if (std::strncmp(name, "_ZN2tt8tt_metal", 15) != 0) {
            continue;
        }
        for (uint32_t hook = 0; hook < kHookCount; hook++) {
            if (std::strcmp(name + 15, kHookNames[hook] + 15) == 0) {
                found |= 1ull << hook;
            }
        }
    }
    return found;
}

void complain(Metal& metal, const char* sentence) {
    size_t used = std::strlen(metal.trouble);
    std::snprintf(metal.trouble + used, sizeof(metal.trouble) - used, "%s%s", used > 0 ? "\n" : "", sentence);
}

// A group of kinds is covered when every function it takes is there, and the hooks are called.
struct Requirement {
    const char* what;
    uint64_t kinds;
    Hook hooks[6];
    int hook_count;
    Call calls[12];
    int call_count;
};

constexpr uint64_t bit(Kind kind) { return 1ull << static_cast<uint8_t>(kind); }

const Requirement kRequirements[] = {
    {"buffers",
     bit(Kind::kDram) | bit(Kind::kL1) | bit(Kind::kL1Small) | bit(Kind::kTrace),
     {kHook_allocate_buffer, kHook_deallocate_buffer, kHook_deallocate_buffers, kHook_clear, kHook_allocator_gone,
      kHook_mesh_close},
     6,
     {kCall_buffer_size, kCall_buffer_type, kCall_buffer_device, kCall_buffer_address, kCall_buffer_per_bank,
      kCall_alignment, kCall_num_banks, kCall_bank_size, kCall_base_address, kCall_mesh_devices, kCall_mesh_vtable,
      kCall_mesh_id},
     12},
    {"circular buffers",
     bit(Kind::kCb),
     {kHook_allocate_cbs, kHook_cb_placed, kHook_program_gone},
     3,
     {kCall_program_id, kCall_mesh_allocator, kCall_chip_allocator, kCall_core_ranges},
     4},
    {"dataflow buffers",
     bit(Kind::kDfb),
     {kHook_allocate_dfbs, kHook_dfb_placed, kHook_program_gone},
     3,
     {kCall_program_id, kCall_mesh_allocator, kCall_chip_allocator},
     3},
    {"scratchpads",
     bit(Kind::kScratchpad),
     {kHook_allocate_scratchpads, kHook_program_gone},
     2,
     {kCall_program_id, kCall_mesh_allocator, kCall_chip_allocator, kCall_program_kernels, kCall_kernel_scratchpads,
      kCall_kernel_args, kCall_kernel_on_core},
     7},
    {"kernels",
     bit(Kind::kKernel) | bit(Kind::kFabricKernel) | bit(Kind::kDispatchKernel),
     {kHook_compile, kHook_program_gone},
     2,
     {kCall_program_kernels, kCall_kernel_name, kCall_kernel_on_core, kCall_kernel_packed, kCall_compute_vtable,
      kCall_data_vtable, kCall_ethernet_vtable, kCall_program_id, kCall_mesh_allocator, kCall_chip_allocator},
     10},
};

void check(Metal& metal) {
    // Everything hangs on buffers: without them a place cannot be described, and nothing is done at all.
    for (const Requirement& need : kRequirements) {
        if (&need != kRequirements && metal.odd_programs) {
            complain(metal, "programs are not tracked: this libtt_metal is older than 0.75, and what it says of them "
                            "was never compared with anything");
            return;
        }
        char sentence[160];
        const char* lacking = nullptr;
        bool uncalled = false;
        for (int i = 0; i < need.hook_count && lacking == nullptr; i++) {
            Hook hook = need.hooks[i];
            if (metal.hooks[hook] == nullptr || (metal.called >> hook & 1) == 0) {
                lacking = kHookWords[hook];
                uncalled = metal.hooks[hook] != nullptr;
            }
        }
        for (int i = 0; i < need.call_count && lacking == nullptr; i++) {
            if (!metal.has(need.calls[i])) {
                lacking = kCallWords[need.calls[i]];
            }
        }
        if (lacking == nullptr) {
            metal.coverage |= need.kinds;
            continue;
        }
        std::snprintf(sentence, sizeof(sentence), "%s are not tracked: this libtt_metal %s %s", need.what,
                      uncalled ? "does not call through its linkage table:" : "has no", lacking);
        complain(metal, sentence);
        if (&need == kRequirements) {
            return;
        }
    }
}

// The seventh and later slots of IDevice are used by number; MeshDevice exports what its slots should hold.
void check_vtable(Metal& metal) {
    void** table = static_cast<void**>(metal.calls[kCall_mesh_vtable]);
    if (table == nullptr || table[2 + 3] == nullptr) {
        return;
    }
    // The loader may have filled the slot with the exported function or, were it hooked, with the hook.
    if (table[2 + 3] != metal.calls[kCall_mesh_id] || table[2 + 2] != metal.calls[kCall_mesh_arch]) {
        metal.calls[kCall_mesh_vtable] = nullptr;
        complain(metal, "devices cannot be told apart: IDevice's virtual functions are not where they were");
    }
}

const Metal* make(uintptr_t address) {
    int count = copy_count.load(std::memory_order_relaxed);
    Object object;
    if (count == kMostCopies || !object_at(address, object)) {
        return nullptr;
    }
    for (int i = 0; i < count; i++) {
        if (copy(i).begin == object.begin) {
            return &copy(i);
        }
    }
    Metal& metal = copy(count);
    metal.begin = object.begin;
    std::snprintf(metal.path, sizeof(metal.path), "%s", object.path);
    // Pinned: functions remembered here must not be unmapped.
    void* handle = dlopen(object.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
    if (handle == nullptr) {
        return nullptr;
    }
    for (uint32_t hook = 0; hook < kHookCount; hook++) {
        metal.hooks[hook] = dlsym(handle, kHookNames[hook]);
    }
    for (uint32_t call = 0; call < kCallCount; call++) {
        metal.calls[call] = dlsym(handle, kCallNames[call]);
    }
    metal.exception_globals = reinterpret_cast<void* (*)()>(dlsym(handle, "__cxa_get_globals"));
    metal.operator_delete = delete_of(object, handle);
    metal.called = called_through_table(object);
    check_vtable(metal);
    stand_in_for_missing(metal, count);
    check(metal);
    __atomic_store_n(&metal.end, object.end, __ATOMIC_RELEASE);
    copy_count.store(count + 1, std::memory_order_release);
    return &metal;
}

// The first of the hooked functions that is to be found there: not every wheel has every one.
void* any_hook(void* where) {
    for (const char* name : kHookNames) {
        if (void* found = dlsym(where, name)) {
            return found;
        }
    }
    return nullptr;
}

const Metal* resolve(uintptr_t caller) {
    Object object;
    if (!object_at(caller, object)) {
        return nullptr;
    }
    // The caller's own view first: the object and what it links against. Then whatever comes after us.
    void* real = nullptr;
    if (void* handle = dlopen(object.path[0] != 0 ? object.path : nullptr, RTLD_NOLOAD | RTLD_LAZY)) {
        real = any_hook(handle);
        dlclose(handle);
    }
    Object found, own;
    bool ours = real != nullptr && object_at(reinterpret_cast<uintptr_t>(real), found) &&
                object_at(reinterpret_cast<uintptr_t>(&resolve), own) && found.begin == own.begin;
    if (real == nullptr || ours) {
        real = any_hook(RTLD_NEXT);
    }
    if (real == nullptr) {
        return nullptr;
    }
    const Metal* metal = make(reinterpret_cast<uintptr_t>(real));
    int count = caller_count.load(std::memory_order_relaxed);
    if (metal != nullptr && count < kMostCallers) {
        callers[count] = {object.begin, object.end, metal};
        caller_count.store(count + 1, std::memory_order_release);
    }
    return metal;
}

const Metal* known(uintptr_t caller) noexcept {
    int copies_now = copy_count.load(std::memory_order_acquire);
    for (int i = 0; i < copies_now; i++) {
        if (caller >= copy(i).begin && caller < copy(i).end) {
            return &copy(i);
        }
    }
    int callers_now = caller_count.load(std::memory_order_acquire);
    for (int i = 0; i < callers_now; i++) {
        if (caller >= callers[i].begin && caller < callers[i].end) {
            return callers[i].metal;
        }
    }
    return nullptr;
}

}  // namespace

void Metal::swallowed() const noexcept {
    struct Globals {  // as the Itanium C++ ABI lays it out
        void* caught;
        unsigned int uncaught;
    };
    auto* ours = reinterpret_cast<Globals*>(abi::__cxa_get_globals());
    auto* theirs = exception_globals == nullptr ? nullptr : static_cast<Globals*>(exception_globals());
    if (ours->uncaught == ~0u) {  // we took one off that was never counted here
        ours->uncaught = 0;
        if (theirs != nullptr && theirs->uncaught > 0) {
            theirs->uncaught--;
        }
    }
}

const Metal& other_metal_of(void* caller) noexcept {
    uintptr_t address = reinterpret_cast<uintptr_t>(caller);
    const Metal* metal = known(address);
    if (__builtin_expect(metal != nullptr, 1)) {
        return *metal;
    }
    pthread_mutex_lock(&resolving);
    metal = known(address);
    if (metal == nullptr) {
        metal = resolve(address);
    }
    if (metal == nullptr && copy_count.load(std::memory_order_relaxed) > 0) {
        metal = &first_copy;
    }
    pthread_mutex_unlock(&resolving);
    if (metal == nullptr) {  // whoever called linked against a libtt_metal that cannot be found again
        std::fputs("ttmem agent: the real tt-metal function behind a hook is gone\n", stderr);
        std::abort();
    }
    return *metal;
}

}  // namespace ttmem
