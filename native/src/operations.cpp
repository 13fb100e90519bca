// SPDX-License-Identifier: Apache-2.0
#include "operations.h"

#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent.h"
#include "python.h"
#include "stacks.h"

namespace ttmem {

struct OperationName {
    const void* object;
    Store* store;  // whose blob it is: after a fork it is another store's
    uint32_t blob;
    char text[116];
};

namespace {

using CallSlot = void* (*)(void*, void*, void*);
constexpr int kTpCall = 50;            // Py_tp_call
constexpr size_t kTpCallOffset = 128;  // of tp_call in PyTypeObject; checked against PyType_GetSlot

using Name = OperationName;

constexpr uint32_t kMostNames = 4096;
SpinLock naming;
Map* known = nullptr;  // operation object -> index
Name* names = nullptr;
uint32_t name_count = 0;
Map* causes = nullptr;  // operation, stack and shape -> blob
Store* causes_store = nullptr;

CallSlot& call_slot(void* type) { return *reinterpret_cast<CallSlot*>(static_cast<char*>(type) + kTpCallOffset); }

// The names a thread used last: most calls are of few operations, and a look here takes no lock.
struct Recent {
    const void* object;
    Name* name;
};
constexpr size_t kRecent = 16;
thread_local Recent recent[kRecent];

[[gnu::cold, gnu::noinline]] Name* find_or_ask(void* self);

// Blob with nothing but the name of an operation.
uint32_t plain_cause(Store& store, Name* name) noexcept {
    if (name == nullptr) {
        return 0;
    }
    if (name->store != &store) {
        name->blob = store.text(name->text);
        name->store = &store;
    }
    return name->blob;
}

// Blob that names an operation, the shape of what it made, and where in Python that was: lines in this order.
uint32_t cause(Store& store, Name* name, const Stack* where, const char* shape) noexcept {
    uint32_t plain = plain_cause(store, name);
    if (where != nullptr && where->number == 0) {
        store.header()->blobs_full++;
        where = nullptr;
    }
    if (where == nullptr && shape[0] == 0) {
        return plain;
    }
    if (causes_store != &store) {  // at first, and after a fork: the blobs are another store's
        causes = new Map();
        causes_store = &store;
    }
    uint64_t key = (uint64_t{plain} << 32 | (where == nullptr ? 0 : where->number));
    for (const char* at = shape; *at != 0; at++) {
        key = (key ^ static_cast<uint8_t>(*at)) * 0x100000001b3ull;
    }
    if (const uint32_t* known_blob = causes->find(key)) {
        return *known_blob;
    }
    if (store.header()->blobs_used >= kBlobBytes / 4 * 3) {  // the rest is for names and core sets
        store.header()->blobs_full++;
        return plain;
    }
    char text[4096];
    int length = std::snprintf(text, sizeof(text), "%s\n%s\n%s", name == nullptr ? "" : name->text, shape,
                               where == nullptr ? "" : where->text);
    uint32_t size = static_cast<uint32_t>(length) < sizeof(text) ? static_cast<uint32_t>(length) : sizeof(text) - 1;
    uint32_t blob = store.blob(text, size);
    if (blob == 0) {
        return plain;
    }
    causes->insert(key, blob);
    return blob;
}

// Runs with the GIL held and no Python error set.
Name* name_of(void* self) {
    Recent& slot = recent[(reinterpret_cast<uint64_t>(self) >> 4) % kRecent];
    if (slot.object != self) {
        slot = {self, find_or_ask(self)};
    }
    return slot.name;
}

Name* find_or_ask(void* self) {
    {
        Locked held(naming);
        if (const uint32_t* index = known->find(reinterpret_cast<uint64_t>(self))) {
            return &names[*index];
        }
    }
    const char* text = nullptr;
    void* value = python.attribute(self, "python_fully_qualified_name");
    if (value != nullptr) {
        text = python.utf8(value);
    }
    if (text == nullptr) {
        python.clear_error();
    }
    Locked held(naming);
    Name* made = nullptr;
    if (text != nullptr && name_count < kMostNames && known->insert(reinterpret_cast<uint64_t>(self), name_count)) {
        made = &names[name_count++];
        made->object = self;
        std::snprintf(made->text, sizeof(made->text), "%s", text);
    }
    if (value != nullptr) {
        python.release(value);
    }
    return made;
}

// -- shapes: what an operation returned, beside the buffers that were allocated in it ------------------------------

struct Fresh {
    uint64_t address, sequence;
    uint32_t slot;
    Name* name;
    const Stack* stack;
};
constexpr uint32_t kMostFresh = 32;
thread_local Fresh fresh[kMostFresh];
void* tensor_type = nullptr;
struct Words {
    void *address, *shape, *dtype, *layout, *member;  // Python's, and kept
};
Words words{};

// The shape as "[1, 1, 32, 32]", number by number: to let Python write it costs ten times as much. Returns its length.
size_t add_shape(char* to, size_t room, void* tensor) {
    void* shape = python.get(tensor, words.shape);
    long rank = shape == nullptr ? -1 : python.size(shape);
    size_t used = 0;
    for (long i = 0; i < rank && used + 32 < room; i++) {
        void* item = python.at(shape, i);
        unsigned long long value = item == nullptr ? 0 : python.as_number(item);
        used += static_cast<size_t>(std::snprintf(to + used, room - used, "%s%llu", i == 0 ? "[" : ", ", value));
        if (item != nullptr) {
            python.release(item);
        }
    }
    if (rank >= 0) {
        used += static_cast<size_t>(std::snprintf(to + used, room - used, rank == 0 ? "[]" : "]"));
    }
    python.clear_error();
    if (shape != nullptr) {
        python.release(shape);
    }
    return used;
}

// The name of an enumeration's member in small letters. Appends, returns the new end.
size_t add_name(char* to, size_t used, size_t room, void* object, void* attribute) {
    void* value = python.get(object, attribute);
    // What a member of Python's enumerations keeps: to print one would run Python code, which tracers see.
    void* name = value == nullptr ? nullptr : python.get(value, words.member);
    if (name == nullptr && value != nullptr) {
        python.clear_error();
        name = python.as_text(value);
    }
    const char* text = name == nullptr ? nullptr : python.utf8(name);
    if (text == nullptr) {
        python.clear_error();
    } else {
        const char* dot = std::strrchr(text, '.');
        for (const char* from = dot == nullptr ? text : dot + 1; *from != 0 && *from != '\n' && used + 1 < room;
             from++) {
            to[used++] = static_cast<char>(std::tolower(static_cast<unsigned char>(*from)));
        }
        to[used] = 0;
    }
    for (void* held : {name, value}) {
        if (held != nullptr) {
            python.release(held);
        }
    }
    return used;
}

uint64_t address_of(void* tensor) {
    void* number = python.call_method(tensor, words.address, nullptr);
    uint64_t address = number == nullptr ? 0 : python.as_number(number);
    python.clear_error();  // a tensor on the host has none
    if (number != nullptr) {
        python.release(number);
    }
    return address;
}

// Runs with the GIL held and no Python error set.
void describe(void* tensor, uint32_t from) {
    uint64_t address = address_of(tensor);
    for (uint32_t i = from; address != 0 && i < of_thread.fresh_count; i++) {
        if (fresh[i].address != address) {
            continue;
        }
        char text[256] = "";
        size_t used = add_shape(text, sizeof(text), tensor);
        for (void* more : {words.dtype, words.layout}) {
            if (used > 0 && used + 2 < sizeof(text)) {
                text[used++] = ' ';
                used = add_name(text, used, sizeof(text), tensor, more);
            }
        }
        if (Agent* agent = Agent::started()) {
            Store& store = agent->store;
            Locked held(store.lock);
            uint32_t blob = cause(store, fresh[i].name, fresh[i].stack, text);
            store.rename(fresh[i].slot, fresh[i].sequence, blob);
        }
        fresh[i].address = 0;
        return;
    }
}

[[gnu::cold, gnu::noinline]] void describe_all(void* result, uint32_t from) {
    void* type = python.type(result);
    if (type == tensor_type) {
        describe(result, from);
    } else if (type == python.tuple_type || type == python.list_type) {
        long count = python.size(result);
        for (long i = 0; i < count && i < kMostFresh; i++) {
            void* item = python.at(result, i);
            void* kind = item == nullptr ? nullptr : python.type(item);
            if (kind == tensor_type) {
                describe(item, from);
            }
            for (void* object : {kind, item}) {
                if (object != nullptr) {
                    python.release(object);
                }
            }
        }
        python.clear_error();
    }
    python.release(type);
}

// -- what an operation keeps: buffers of the program it made, such as the indices of a convolution --------------------

constexpr int kDeepest = 3;  // lists in lists that are looked into

// Passes over the buffers of all tensors in a result. False if there may be more in it than can be seen.
bool pass_over(void* object, uint32_t from, int deeper) {
    if (object == nullptr || object == python.none) {
        return object != nullptr;
    }
    void* type = python.type(object);
    bool seen = false;
    if (type == tensor_type) {
        seen = true;
        uint64_t address = address_of(object);
        for (uint32_t i = from; i < of_thread.fresh_count; i++) {
            if (fresh[i].address == address) {
                fresh[i].address = 0;
            }
        }
    } else if (type == python.tuple_type || type == python.list_type) {
        seen = deeper > 0;
        long count = python.size(object);
        for (long i = 0; seen && i < count; i++) {
            void* item = python.at(object, i);
            seen = pass_over(item, from, deeper - 1);
            if (item != nullptr) {
                python.release(item);
            }
        }
        python.clear_error();
    } else {
        for (void* plain : python.plain_types) {
            seen = seen || type == plain;
        }
    }
    python.release(type);
    return seen;
}

// Runs with the GIL held and no Python error set.
[[gnu::cold, gnu::noinline]] void tell_kept(void* result, uint32_t from, const Name* name) {
    Agent* agent = Agent::started();
    if (agent == nullptr || tensor_type == nullptr || !pass_over(result, from, kDeepest)) {
        return;
    }
    Store& store = agent->store;
    Locked held(store.lock);
    for (uint32_t i = from; i < of_thread.fresh_count; i++) {
        Kind kind = store.table()[fresh[i].slot].kind;
        if (fresh[i].address != 0 && fresh[i].name == name && (kind == Kind::kDram || kind == Kind::kL1)) {
            store.mark(fresh[i].slot, fresh[i].sequence, kKept);
        }
    }
}

// Stands in for the call slot of ttnn's operation types. Python's errors are return values here.
[[gnu::hot]] void* called(void* self, void* arguments, void* keywords) {
    if (of_process.paused.load(std::memory_order_relaxed)) {
        return of_process.real_call(self, arguments, keywords);
    }
    Name* outer = of_thread.operation;
    uint32_t before = outer == nullptr ? 0 : of_thread.fresh_count;
    of_thread.fresh_count = before;
    Name* name = of_thread.operation = name_of(self);
    uint32_t made_before = of_process.programs_made.load(std::memory_order_relaxed);
    void* result = of_process.real_call(self, arguments, keywords);
    of_thread.operation = outer;
    if (of_thread.fresh_count > before && result != nullptr) {
        if (of_process.stacks_wanted) {
            describe_all(result, before);
        }
        if (__builtin_expect(of_process.programs_made.load(std::memory_order_relaxed) != made_before, 0)) {
            tell_kept(result, before, name);
        }
    }
    return result;
}

bool follow_type(void* module, const char* name) {
    void* type = python.attribute(module, name);
    if (type == nullptr) {
        python.clear_error();
        return false;
    }
    CallSlot now = call_slot(type);
    bool ours = now == called;
    // The slot must be where we think it is, and both types must be called the same way.
    if (!ours && reinterpret_cast<void*>(now) == python.slot(type, kTpCall) && now != nullptr &&
        (of_process.real_call == nullptr || of_process.real_call == now)) {
        of_process.real_call = now;
        call_slot(type) = called;
        ours = true;
    }
    python.release(type);
    return ours;
}

}  // namespace

uint32_t operation(Store& store) noexcept {
    const Stack* where = stack();
    return where == nullptr ? plain_cause(store, of_thread.operation) : cause(store, of_thread.operation, where, "");
}

void made(uint32_t slot, const Record& record) noexcept {
    if (of_thread.operation != nullptr && of_thread.fresh_count < kMostFresh) {
        fresh[of_thread.fresh_count++] = {record.address, record.sequence, slot, of_thread.operation, stack()};
    }
}

void program_made() noexcept { of_process.programs_made.fetch_add(1, std::memory_order_relaxed); }

void follow_operations(Store& store) noexcept {
    if (!python.there() || !python.holds_gil()) {
        return;
    }
    void* module = python.item(python.modules(), "ttnn.decorators");  // borrowed
    if (module == nullptr) {
        return;
    }
    if (known == nullptr) {
        names = static_cast<Name*>(std::calloc(kMostNames, sizeof(Name)));
        known = names == nullptr ? nullptr : new Map();
        if (known == nullptr) {
            return;
        }
    }
    bool fast = follow_type(module, "FastOperation");
    bool slow = follow_type(module, "Operation");
    const char* trouble = follow_stacks();
    if (words.member == nullptr) {
        words = {python.intern("buffer_address"), python.intern("shape"), python.intern("dtype"),
                 python.intern("layout"), python.intern("_name_")};
    }
    if (tensor_type == nullptr) {
        void* ttnn = python.item(python.modules(), "ttnn");
        tensor_type = ttnn == nullptr ? nullptr : python.attribute(ttnn, "Tensor");
        if (tensor_type == nullptr) {
            python.clear_error();
        } else {
            python.release(tensor_type);  // only compared with, and ttnn keeps it
        }
    }
    Locked held(store.lock);
    store.header()->names = fast && slow ? 1 : 0;
    if (trouble != nullptr) {
        store.complain(trouble);
    }
}

}  // namespace ttmem
