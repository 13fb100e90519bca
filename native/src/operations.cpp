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

namespace {

using CallSlot = void* (*)(void*, void*, void*);
constexpr int kTpCall = 50;            // Py_tp_call
constexpr size_t kTpCallOffset = 128;  // of tp_call in PyTypeObject; checked against PyType_GetSlot

struct Name {
    uint32_t pid;  // of the process in whose store the blob is
    uint32_t blob;
    char text[120];
};

constexpr uint32_t kMostNames = 4096;
SpinLock naming;
Map* known = nullptr;   // operation object -> number of its name
Name* names = nullptr;  // by number; there is no number 0
uint32_t last_name = 0;
Map* causes = nullptr;  // operation, stack and shape -> blob
Store* causes_store = nullptr;

CallSlot& call_slot(void* type) { return *reinterpret_cast<CallSlot*>(static_cast<char*>(type) + kTpCallOffset); }

uint32_t find_or_ask(void* self);

// Blob with nothing but the name of an operation.
uint32_t plain_cause(Store& store, uint32_t operation) noexcept {
    if (operation == 0) {
        return 0;
    }
    Name& name = names[operation];
    if (name.pid != store.header()->pid) {
        name.blob = store.text(name.text);
        name.pid = store.header()->pid;
    }
    return name.blob;
}

// Blob that names an operation, the shape of what it made, and where in Python that was: lines in this order.
uint32_t cause(Store& store, uint32_t operation, const Stack* where, const char* shape) noexcept {
    uint32_t plain = plain_cause(store, operation);
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
    int length = std::snprintf(text, sizeof(text), "%s\n%s\n%s", operation == 0 ? "" : names[operation].text, shape,
                               where == nullptr ? "" : where->text);
    uint32_t size = static_cast<uint32_t>(length) < sizeof(text) ? static_cast<uint32_t>(length) : sizeof(text) - 1;
    uint32_t blob = store.blob(text, size);
    if (blob == 0) {
        return plain;
    }
    causes->insert(key, blob);
    return blob;
}

[[gnu::cold, gnu::noinline]] void remember(RecentOperation& slot, void* self) {
    Store::thread_id();  // what was remembered in another process is forgotten first
    slot = {self, find_or_ask(self), 0};
    if (Agent* agent = Agent::started()) {
        Locked held(agent->store.lock);
        slot.blob = plain_cause(agent->store, slot.operation);
    }
}

// Most calls are of few operations, and a look at these takes no lock. Runs with the GIL held and no Python error set.
const RecentOperation& recent_of(void* self) {
    // Operations are neighbours in memory: all bits of the address are to count.
    const uint64_t hash = reinterpret_cast<uint64_t>(self) * 0x9e3779b97f4a7c15ull >> 32;
    RecentOperation& slot = of_thread.recent[hash % kRecentOperations];
    if (__builtin_expect(slot.object != self || of_thread.pid != of_process.pid, 0)) {
        remember(slot, self);
    }
    return slot;
}

uint32_t find_or_ask(void* self) {
    {
        Locked held(naming);
        if (const uint32_t* number = known->find(reinterpret_cast<uint64_t>(self))) {
            return *number;
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
    uint32_t made = 0;
    if (text != nullptr && last_name + 1 < kMostNames &&
        known->insert(reinterpret_cast<uint64_t>(self), last_name + 1)) {
        made = ++last_name;
        std::snprintf(names[made].text, sizeof(Name::text), "%s", text);
    }
    if (value != nullptr) {
        python.release(value);
    }
    return made;
}

// -- shapes: what an operation returned, beside the buffers that were allocated in it ------------------------------

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
        if (of_thread.fresh[i].address != address) {
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
            uint32_t blob = cause(store, of_thread.fresh[i].operation, of_thread.fresh[i].stack, text);
            store.rename(of_thread.fresh[i].slot, of_thread.fresh[i].sequence, blob);
        }
        of_thread.fresh[i].address = 0;
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
            if (of_thread.fresh[i].address == address) {
                of_thread.fresh[i].address = 0;
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
[[gnu::cold, gnu::noinline]] void tell_kept(void* result, uint32_t from, uint32_t operation) {
    Agent* agent = Agent::started();
    if (agent == nullptr || tensor_type == nullptr || !pass_over(result, from, kDeepest)) {
        return;
    }
    Store& store = agent->store;
    Locked held(store.lock);
    for (uint32_t i = from; i < of_thread.fresh_count; i++) {
        Kind kind = store.table()[of_thread.fresh[i].slot].kind;
        if (of_thread.fresh[i].address != 0 && of_thread.fresh[i].operation == operation &&
            (kind == Kind::kDram || kind == Kind::kL1)) {
            store.mark(of_thread.fresh[i].slot, of_thread.fresh[i].sequence, kKept);
        }
    }
}

// -- operations that find too little L1 by a calculation of their own -------------------------------------------------

// Is an error about an amount of L1? Whether it is a message that is known is decided by readers; this keeps most
// others out of the ring. What follows is the backtrace.
bool speaks_of_l1(const char* text) {
    const char* end = std::strstr(text, "\nbacktrace:");
    const auto has = [&](const char* words) {
        const char* found = std::strstr(text, words);
        return found != nullptr && (end == nullptr || found < end);
    };
    return has("L1") && (has(" B") || has("bytes") || has("capacity"));
}

// An operation raised an error. If no hook has seen the exception, the operation requested nothing: it compared what it
// needs with what is there. Runs with the GIL held and the error set, and leaves it as it was.
[[gnu::cold, gnu::noinline]] void tell_refusal() {
    Agent* agent = Agent::started();
    if (of_thread.passing != nullptr || agent == nullptr || python.error_type == nullptr ||
        python.error_type() != *python.runtime_error) {
        return;
    }
    void *type = nullptr, *value = nullptr, *traceback = nullptr;
    python.take_error(&type, &value, &traceback);
    void* message = value == nullptr ? nullptr : python.as_text(value);
    const char* text = message == nullptr ? nullptr : python.utf8(message);
    if (text == nullptr) {
        python.clear_error();
    } else if (speaks_of_l1(text)) {
        look_at_stack();
        agent->failed(text, nullptr, nullptr, nullptr);
        of_thread.passing = &of_thread;  // operations around it see the error, too
    }
    if (message != nullptr) {
        python.release(message);
    }
    python.set_error(type, value, traceback);
}

// Stands in for the call slot of ttnn's operation types. Python's errors are return values here.
[[gnu::hot]] void* called(void* self, void* arguments, void* keywords) {
    if (of_process.paused.load(std::memory_order_relaxed)) {
        return of_process.real_call(self, arguments, keywords);
    }
    uint32_t outer = of_thread.operation;
    uint32_t before = outer == 0 ? 0 : of_thread.fresh_count;
    of_thread.fresh_count = before;
    const RecentOperation& found = recent_of(self);
    const uint32_t operation = of_thread.operation = found.operation;
    of_thread.operation_blob = found.blob;
    of_thread.passing = nullptr;
    uint32_t made_before = of_process.programs_made.load(std::memory_order_relaxed);
    void* result = of_process.real_call(self, arguments, keywords);
    if (__builtin_expect(result == nullptr, 0)) {
        tell_refusal();
    }
    of_thread.operation = outer;
    of_thread.operation_blob = 0;
    if (of_thread.fresh_count > before && result != nullptr) {
        if (of_process.stacks_wanted) {
            describe_all(result, before);
        }
        if (__builtin_expect(of_process.programs_made.load(std::memory_order_relaxed) != made_before, 0)) {
            tell_kept(result, before, operation);
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

uint32_t look_up_operation(Store& store) noexcept { return cause(store, of_thread.operation, stack(), ""); }

void made(uint32_t slot, const Record& record) noexcept {
    if (of_thread.operation != 0 && of_thread.fresh_count < kMostFresh) {
        of_thread.fresh[of_thread.fresh_count++] = {record.address, record.sequence, slot, of_thread.operation,
                                                    stack()};
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
