// SPDX-License-Identifier: Apache-2.0
#include "metal.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace ttmem {

Metal first_copy;

namespace {

// symbols.def as tables. Its names stand for groups and functions here.
namespace list {

constexpr uint64_t bit(Kind kind) { return 1ull << static_cast<uint8_t>(kind); }

enum GroupNumber : uint32_t {
#define TTMEM_GROUP(name, ...) kGroup_##name,
#include "symbols.def"
};

enum GroupBit : uint32_t {
    none = 0,
#define TTMEM_GROUP(name, ...) name = 1u << kGroup_##name,
#include "symbols.def"
};

enum Function : uint32_t {
#define TTMEM_HOOK(name, ...) name,
#include "symbols.def"
#define TTMEM_CALL(name, ...) name,
#define TTMEM_OLDER(name, ...) name,
#include "symbols.def"
};

// A group of kinds is covered when every function it needs is there, and the hooks among them are called.
struct Group {
    uint32_t bit;
    const char* text;
    uint64_t kinds;
};

constexpr Group kGroups[] = {
#define TTMEM_GROUP(name, text, kinds) {name, text, kinds},
#include "symbols.def"
};

struct Wanted {
    const char* name;
    const char* symbol;
    uint32_t groups;  // that need it
};

constexpr Wanted kHooks[] = {
#define TTMEM_HOOK(name, result, parameters, groups, unknown, symbol) {#name, symbol, groups},
#include "symbols.def"
};

constexpr Wanted kCalls[] = {
#define TTMEM_CALL(name, groups, unknown, symbol) {#name, symbol, groups},
#define TTMEM_OLDER(name, symbol) {#name, symbol, none},
#include "symbols.def"
};

bool has(const Metal& metal, Function function) {
    uint32_t number = function;
    return (number < kHookCount ? metal.hooks[number] : metal.calls[number - kHookCount]) != nullptr;
}

bool has_all(const Metal& metal, std::initializer_list<Function> functions) {
    return std::all_of(functions.begin(), functions.end(), [&](Function f) { return has(metal, f); });
}

bool has_none(const Metal& metal, std::initializer_list<Function> functions) {
    return std::none_of(functions.begin(), functions.end(), [&](Function f) { return has(metal, f); });
}

bool applies(const Metal& metal, Substitute substitute) {
#define TTMEM_LIST(...) {__VA_ARGS__}
    switch (substitute) {
#define TTMEM_SUBSTITUTE(name, missing, needed) \
    case kSubstitute_##name:                    \
        return has_none(metal, TTMEM_LIST missing) && has_all(metal, TTMEM_LIST needed);
#include "symbols.def"
    }
#undef TTMEM_LIST
    return false;
}

}  // namespace list

using list::kCalls;
using list::kGroups;
using list::kHooks;

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
            if (std::strcmp(name + 15, kHooks[hook].symbol + 15) == 0) {
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

// Why a group cannot be tracked: the first function it needs that is missing or that is not called; nullptr if none is.
const char* lacking(const Metal& metal, const list::Group& group, bool& uncalled) {
    for (uint32_t hook = 0; hook < kHookCount; hook++) {
        bool there = metal.hooks[hook] != nullptr;
        if ((kHooks[hook].groups & group.bit) != 0 && (!there || (metal.called >> hook & 1) == 0)) {
            uncalled = there;
            return kHooks[hook].name;
        }
    }
    for (uint32_t call = 0; call < kCallCount; call++) {
        if ((kCalls[call].groups & group.bit) != 0 && metal.calls[call] == nullptr) {
            return kCalls[call].name;
        }
    }
    return nullptr;
}

void check(Metal& metal) {
    // Everything hangs on buffers: without them a mesh cannot be described, and nothing is done at all.
    for (const list::Group& group : kGroups) {
        if (&group != kGroups && metal.odd_programs) {
            complain(metal,
                     "programs are not tracked: this libtt_metal is older than 0.75, and what it says of them "
                     "was never compared with anything");
            return;
        }
        bool uncalled = false;
        const char* function = lacking(metal, group, uncalled);
        if (function == nullptr) {
            metal.coverage |= group.kinds;
            continue;
        }
        char sentence[160];
        std::snprintf(sentence, sizeof(sentence), "%s are not tracked: this libtt_metal %s %s", group.text,
                      uncalled ? "does not call through its linkage table:" : "has no", function);
        complain(metal, sentence);
        if (&group == kGroups) {
            return;
        }
    }
}

// The agent calls two virtual functions of IDevice, arch() and id(), by the number of their slots (VirtualSlot in
// metal_objects.h). MeshDevice exports both functions, so its table shows whether they are in these slots. Slot 0 is
// the third word of a table: the offset to the top of the object and its type information come first.
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
    metal.code_end = object.end;
    std::snprintf(metal.path, sizeof(metal.path), "%s", object.path);
    // Pinned: functions remembered here must not be unmapped.
    void* handle = dlopen(object.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
    if (handle == nullptr) {
        return nullptr;
    }
    for (uint32_t hook = 0; hook < kHookCount; hook++) {
        metal.hooks[hook] = dlsym(handle, kHooks[hook].symbol);
    }
    for (uint32_t call = 0; call < kCallCount; call++) {
        metal.calls[call] = dlsym(handle, kCalls[call].symbol);
    }
    metal.exception_globals = reinterpret_cast<void* (*)()>(dlsym(handle, "__cxa_get_globals"));
    metal.operator_delete = delete_of(object, handle);
    metal.called = called_through_table(object);
    check_vtable(metal);
    metal.fields = find_buffer_fields(metal);
    stand_in_for_missing(metal, count);
    check(metal);
    metal.allocate_buffer = metal.hooks[kHook_allocate_buffer];
    metal.deallocate_buffer = metal.hooks[kHook_deallocate_buffer];
    metal.enqueue = metal.hooks[kHook_enqueue];
    metal.compile_workload = metal.hooks[kHook_compile_workload];
    metal.load_binaries = metal.hooks[kHook_load_binaries];
    metal.buffer_per_bank = metal.calls[kCall_buffer_per_bank];
    __atomic_store_n(&metal.end, object.end, __ATOMIC_RELEASE);
    copy_count.store(count + 1, std::memory_order_release);
    return &metal;
}

// The first of the hooked functions that is to be found there: not every wheel has every one.
void* any_hook(void* where) {
    for (const list::Wanted& hook : kHooks) {
        if (void* found = dlsym(where, hook.symbol)) {
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

bool applies(const Metal& metal, Substitute substitute) noexcept { return list::applies(metal, substitute); }

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
    if (metal == nullptr) {  // the caller is linked against a libtt_metal that cannot be found again
        std::fputs("ttmem agent: the real tt-metal function behind a hook is gone\n", stderr);
        std::abort();
    }
    return *metal;
}

const Metal& metal_of_other_launcher(void* caller) noexcept {
    const Metal& metal = metal_of(caller);
    uintptr_t address = reinterpret_cast<uintptr_t>(caller);
    pthread_mutex_lock(&resolving);
    for (int i = 0; i < caller_count.load(std::memory_order_relaxed); i++) {
        const Caller& object = callers[i];
        if (first_copy.launcher_end == 0 && object.metal == &first_copy && address >= object.begin &&
            address < object.end) {
            first_copy.launcher_begin = object.begin;
            __atomic_store_n(&first_copy.launcher_end, object.end, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&resolving);
    return metal;
}

}  // namespace ttmem
