// SPDX-License-Identifier: Apache-2.0
// The few functions of CPython's C API that the agent needs, looked up by name in the process; nothing is linked.
#pragma once

namespace ttmem {

struct Python {
    void* (*modules)();
    void* (*item)(void*, const char*);
    void* (*attribute)(void*, const char*);
    void* (*get)(void*, void* name);  // the same with a name of Python's: an interned one is found much faster
    void* (*intern)(const char*);
    void* (*type)(void*);
    const char* (*utf8)(void*);
    void* (*as_text)(void*);
    void* (*call_method)(void*, void* name, ...);
    unsigned long long (*as_number)(void*);
    void* (*slot)(void*, int);
    void (*clear_error)();
    // For the message of an error; nullptr in a Python that lacks one of them.
    void* (*error_type)();  // of the error that is set, borrowed
    void (*take_error)(void** type, void** value, void** traceback);
    void (*set_error)(void* type, void* value, void* traceback);
    void** runtime_error;
    void (*release)(void*);
    void* tuple_type;
    void* list_type;
    void* plain_types[4];  // int, bool, float, str
    void* none;
    long (*size)(void*);
    void* (*at)(void*, long);
    // For stacks. Frames and code objects come as new references.
    void* (*now_state)();  // of the thread that holds the GIL (up to 3.11), or of this thread if it holds it (later)
    void* (*own_state)();
    void* (*top_frame)(void* state);
    void* (*frame_back)(void*);
    void* (*frame_code)(void*);
    int (*frame_line)(void*);
    int (*frame_position)(void*);  // nullptr in 3.10
    int (*collect_off)();
    int (*collect_on)();
    void* (*save_thread)();
    void (*restore_thread)(void*);

    // Looks everything up at the first call. Without Python, or with one that lacks something, it is false.
    bool there() noexcept;
    // Does this thread hold the GIL? Needs neither the GIL nor a thread that Python knows.
    bool holds_gil() const noexcept {
        void* state = now_state();
        return state != nullptr && state == own_state();
    }
};

extern Python python;

}  // namespace ttmem
