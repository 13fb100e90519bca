// SPDX-License-Identifier: Apache-2.0
#include "stacks.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "python.h"
#include "store.h"

namespace ttmem {

namespace {

constexpr int kMostFrames = 64;
constexpr uint32_t kMostStacks = 1u << 16;
constexpr size_t kMostText = 3840;  // with the operation before it, a blob of its own
constexpr size_t kMostPath = 300;
constexpr size_t kMostAll = kBlobBytes / 4 * 3;  // bytes of all stacks: more could not be told to readers

struct Frame {
    void* code;
    int position;  // where in it: of the last instruction, or the line in Pythons that do not tell
};

SpinLock keeping;
Map* known = nullptr;  // hash of a stack -> index
Stack* stacks = nullptr;
uint32_t stack_count = 0;
size_t stack_bytes = 0;
bool full = false;  // no further stack is kept
const Stack no_room{0, ""};

// Collections are held off meanwhile: a finalizer that frees a tensor has no business inside a hook.
class NoCollection {
public:
    NoCollection() : was_on_(python.collect_off() != 0) {}
    ~NoCollection() {
        if (was_on_) {
            python.collect_on();
        }
    }
    NoCollection(const NoCollection&) = delete;
    NoCollection& operator=(const NoCollection&) = delete;

private:
    bool was_on_;
};

template <typename Visit>
void walk(Visit visit) {
    void* frame = python.top_frame(python.now_state());  // not this thread's own: it may be in another interpreter
    for (int depth = 0; frame != nullptr && depth < of_process.stack_depth; depth++) {
        visit(frame);
        void* back = python.frame_back(frame);
        python.release(frame);
        frame = back;
    }
    if (frame != nullptr) {
        python.release(frame);
    }
}

// Of a name that is too long the beginning is left out: a path says most at its end.
size_t add_attribute(char* to, size_t room, void* code, const char* attribute) {
    constexpr char kCut[] = "\xe2\x80\xa6";  // an ellipsis
    void* value = python.attribute(code, attribute);
    const char* text = value == nullptr ? nullptr : python.utf8(value);
    if (text == nullptr) {  // the name of a file may be no text
        python.clear_error();
        text = "?";
    }
    size_t length = std::strlen(text), used = 0;
    if (length > room) {
        std::memcpy(to, kCut, used = sizeof(kCut) - 1);
        text += length - (room - used);
        while ((*text & 0xc0) == 0x80) {  // not in the middle of a character
            text++;
        }
    }
    for (; *text != 0; text++) {  // lines are what tells frames apart
        to[used++] = *text == '\n' ? ' ' : *text;
    }
    if (value != nullptr) {
        python.release(value);
    }
    return used;
}

const Stack* make(uint64_t hash) {
    char text[kMostText];
    size_t used = 0;
    bool cut = false;
    walk([&](void* frame) {
        char line[512];
        void* code = python.frame_code(frame);
        size_t length = add_attribute(line, kMostPath, code, "co_filename");
        length += static_cast<size_t>(std::snprintf(line + length, 16, ":%d ", python.frame_line(frame)));
        length += add_attribute(line + length, sizeof(line) - length - 1, code, "co_name");
        python.release(code);
        line[length++] = '\n';
        cut = cut || used + length > sizeof(text);
        if (!cut) {  // whole lines only
            std::memcpy(text + used, line, length);
            used += length;
        }
    });
    char* kept = static_cast<char*>(std::malloc(used + 1));
    Locked held(keeping);
    full = kept == nullptr || stack_count == kMostStacks || stack_bytes + used > kMostAll ||
           !known->insert(hash, stack_count);
    if (full) {
        std::free(kept);
        return &no_room;
    }
    stack_bytes += used;
    std::memcpy(kept, text, used);
    kept[used > 0 ? used - 1 : 0] = 0;  // no empty last line
    stacks[stack_count] = {stack_count + 1, kept};
    return &stacks[stack_count++];
}

// Wants the GIL.
const Stack* take() {
    Frame frames[kMostFrames];
    int count = 0;
    of_thread.taking_stack = true;
    NoCollection off;
    walk([&](void* frame) {
        int position = python.frame_position != nullptr ? python.frame_position(frame) : python.frame_line(frame);
        frames[count++] = {python.frame_code(frame), position};
    });
    uint64_t hash = 0xcbf29ce484222325ull;
    for (int i = 0; i < count; i++) {
        hash = (hash ^ reinterpret_cast<uint64_t>(frames[i].code)) * 0x9e3779b97f4a7c15ull;
        hash = (hash ^ (hash >> 29) ^ static_cast<uint64_t>(frames[i].position)) * 0xbf58476d1ce4e5b9ull;
        hash ^= hash >> 32;
    }
    const Stack* found = nullptr;
    {
        Locked held(keeping);
        if (const uint32_t* index = known->find(hash)) {
            found = &stacks[*index];
        }
    }
    bool fresh = found == nullptr && count > 0;
    if (fresh) {
        found = full ? &no_room : make(hash);
    }
    for (int i = 0; i < count; i++) {
        // The code of a stack that is kept is kept too: its address shall not become another's.
        if (!fresh || found == &no_room) {
            python.release(frames[i].code);
        }
    }
    of_thread.taking_stack = false;
    return found;
}

// -- stand-ins for what ttnn's binding calls to give up the GIL and to get it back ----------------------------------

void* saving() {
    if (!of_process.paused.load(std::memory_order_relaxed) && !of_thread.taking_stack) {
        of_thread.inside = take();
    }
    return python.save_thread();
}

void restoring(void* state) {
    python.restore_thread(state);
    of_thread.inside = nullptr;
}

struct Binding {
    const char* path;
    bool found;
    int patched;
};

bool write_slot(void** slot, void* value, uintptr_t fixed_from, uintptr_t fixed_to) {
    auto at = reinterpret_cast<uintptr_t>(slot);
    bool fixed = at >= fixed_from && at < fixed_to;  // made read-only after relocation
    uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), start = at & ~(page - 1);
    if (fixed && mprotect(reinterpret_cast<void*>(start), page, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (fixed) {
        mprotect(reinterpret_cast<void*>(start), page, PROT_READ);
    }
    return true;
}

int patch(dl_phdr_info* info, size_t, void* data) {
    Binding& binding = *static_cast<Binding*>(data);
    if (info->dlpi_name == nullptr || std::strcmp(info->dlpi_name, binding.path) != 0) {
        return 0;
    }
    binding.found = true;
    const ElfW(Dyn)* entry = nullptr;
    uintptr_t fixed_from = 0, fixed_to = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_DYNAMIC) {
            entry = reinterpret_cast<const ElfW(Dyn)*>(from);
        } else if (part.p_type == PT_GNU_RELRO) {
            fixed_from = from;
            fixed_to = from + part.p_memsz;
        }
    }
    const char* strings = nullptr;
    const ElfW(Sym)* symbols = nullptr;
    const ElfW(Rela)* tables[2] = {nullptr, nullptr};  // of functions called lazily, and of all others
    size_t bytes[2] = {0, 0};
    for (; entry != nullptr && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
            case DT_STRTAB: strings = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
            case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
            case DT_JMPREL: tables[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
            case DT_PLTRELSZ: bytes[0] = entry->d_un.d_val; break;
            case DT_RELA: tables[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
            case DT_RELASZ: bytes[1] = entry->d_un.d_val; break;
            default: break;
        }
    }
    for (int table = 0; table < 2 && strings != nullptr && symbols != nullptr; table++) {
        for (size_t i = 0; tables[table] != nullptr && i < bytes[table] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela)& relocation = tables[table][i];
            const char* name = strings + symbols[ELF64_R_SYM(relocation.r_info)].st_name;
            void* value = std::strcmp(name, "PyEval_SaveThread") == 0      ? reinterpret_cast<void*>(saving)
                          : std::strcmp(name, "PyEval_RestoreThread") == 0 ? reinterpret_cast<void*>(restoring)
                                                                           : nullptr;
            auto* slot = reinterpret_cast<void**>(info->dlpi_addr + relocation.r_offset);
            binding.patched += value != nullptr && write_slot(slot, value, fixed_from, fixed_to);
        }
    }
    return 1;
}

int depth_wanted() {
    const char* wish = getenv("TTMEM_STACKS");
    long depth = wish == nullptr ? 0 : std::strtol(wish, nullptr, 10);
    return depth < 0 ? 0 : depth > kMostFrames ? kMostFrames : static_cast<int>(depth);
}

}  // namespace

const char* follow_stacks() noexcept {
    of_process.stacks_wanted = of_process.stacks_wanted || depth_wanted() > 0;
    if (!of_process.stacks_wanted || of_process.stack_depth > 0) {
        return nullptr;
    }
    void* module = python.item(python.modules(), "ttnn._ttnn");  // borrowed
    void* file = module == nullptr ? nullptr : python.attribute(module, "__file__");
    const char* path = file == nullptr ? nullptr : python.utf8(file);
    if (path == nullptr) {
        python.clear_error();
        return "Python stacks are not taken: ttnn's binding is not loaded.";
    }
    if (known == nullptr) {
        known = new Map();
        stacks = static_cast<Stack*>(std::calloc(kMostStacks, sizeof(Stack)));
    }
    if (stacks == nullptr) {
        return "Python stacks are not taken: there is no memory for them.";
    }
    of_process.stack_depth = depth_wanted();
    Binding binding{path, false, 0};
    dl_iterate_phdr(patch, &binding);
    python.release(file);
    return binding.patched >= 2 ? nullptr
                                : "Python stacks are taken only where ttnn holds the GIL: its binding calls Python in "
                                  "a way that is not known.";
}

void take_stack_in_hook() noexcept {
    bool possible = of_thread.inside == nullptr && !of_thread.taking_stack && python.holds_gil();
    of_thread.seen = possible ? take() : nullptr;
}

}  // namespace ttmem
