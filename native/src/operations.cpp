// SPDX-License-Identifier: Apache-2.0
#include "operations.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace ttmem {

namespace {

// The little of CPython's C API that is needed, found in the running process.
struct Python {
    int (*holds_gil)();
    void* (*modules)();
    void* (*item)(void*, const char*);
    void* (*attribute)(void*, const char*);
    const char* (*utf8)(void*);
    void* (*slot)(void*, int);
    void (*clear_error)();
    void (*release)(void*);

    bool find() {
        auto get = [](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
            return function != nullptr;
        };
        return get(holds_gil, "PyGILState_Check") && get(modules, "PyImport_GetModuleDict") &&
               get(item, "PyDict_GetItemString") && get(attribute, "PyObject_GetAttrString") &&
               get(utf8, "PyUnicode_AsUTF8") && get(slot, "PyType_GetSlot") && get(clear_error, "PyErr_Clear") &&
               get(release, "Py_DecRef");
    }
};

using CallSlot = void* (*)(void*, void*, void*);
constexpr int kTpCall = 50;          // Py_tp_call
constexpr size_t kTpCallOffset = 128;  // of tp_call in PyTypeObject; checked against PyType_GetSlot

struct Name {
    const void* object;
    Store* store;   // whose blob it is: after a fork it is another store's
    uint32_t blob;
    char text[116];
};

constexpr uint32_t kMostNames = 4096;
Python python;
CallSlot real_call = nullptr;
SpinLock naming;
Map* known = nullptr;     // operation object -> index
Name* names = nullptr;
uint32_t name_count = 0;
thread_local Name* current = nullptr;

CallSlot& call_slot(void* type) { return *reinterpret_cast<CallSlot*>(static_cast<char*>(type) + kTpCallOffset); }

// The names a thread used last: most calls are of few operations, and a look here takes no lock.
struct Recent {
    const void* object;
    Name* name;
};
constexpr size_t kRecent = 16;
thread_local Recent recent[kRecent];

Name* find_or_ask(void* self);

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

// Stands in for the call slot of ttnn's operation types. Python's errors are return values here.
void* called(void* self, void* arguments, void* keywords) {
    if (paused.load(std::memory_order_relaxed)) {
        return real_call(self, arguments, keywords);
    }
    Name* outer = current;
    current = name_of(self);
    void* result = real_call(self, arguments, keywords);
    current = outer;
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
        (real_call == nullptr || real_call == now)) {
        real_call = now;
        call_slot(type) = called;
        ours = true;
    }
    python.release(type);
    return ours;
}

}  // namespace

uint32_t operation(Store& store) noexcept {
    Name* name = current;
    if (name == nullptr) {
        return 0;
    }
    if (name->store != &store) {
        name->blob = store.text(name->text);
        name->store = &store;
    }
    return name->blob;
}

void follow_operations(Store& store) noexcept {
    static bool there = python.find();
    if (!there || python.holds_gil() == 0) {
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
    Locked held(store.lock);
    store.header()->names = fast && slow ? 1 : 0;
}

}  // namespace ttmem
