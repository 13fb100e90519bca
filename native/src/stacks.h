// SPDX-License-Identifier: Apache-2.0
// The Python call stack a thread was in when it went into ttnn. Taken where the GIL is held: as ttnn gives it up, or in
// the hook itself where ttnn keeps it. Only if TTMEM_STACKS asks for it, and then each different stack is kept once.
#pragma once

#include <cstdint>

#include "hot_state.h"

namespace ttmem {

struct Stack {
    uint32_t number;   // from 1; 0: one more than there is room for
    const char* text;  // a line per frame, the innermost first: "file:line function"
};

// Starts following if TTMEM_STACKS says how deep. Wants the GIL; cheap to repeat. What stands in the way is said in
// words, nullptr if nothing does.
const char* follow_stacks() noexcept;

[[gnu::cold]] void take_stack_in_hook() noexcept;
// For hooks, before they take a lock: takes the stack if this thread holds the GIL, which it does in older ttnn.
inline void look_at_stack() noexcept {
    if (__builtin_expect(of_process.stack_depth > 0, 0)) {
        take_stack_in_hook();
    }
}
// What this thread was doing in Python, nullptr if that is not known.
inline const Stack* stack() noexcept { return of_thread.inside != nullptr ? of_thread.inside : of_thread.seen; }

}  // namespace ttmem
