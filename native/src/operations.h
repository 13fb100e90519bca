// SPDX-License-Identifier: Apache-2.0
// The ttnn operation a thread is in. Python's calls of operations are followed by standing in for the call slot of
// ttnn's two operation types. If stacks are wanted (stacks.h), the shape of what an operation returns is asked as well.
#pragma once

#include <cstdint>

#include "stacks.h"
#include "store.h"

namespace ttmem {

// Blob with the name of the operation this thread is in, and with its Python stack if those are taken; 0 if neither is
// known. Wants the store's lock.
[[gnu::cold]] uint32_t look_up_operation(Store& store) noexcept;
inline uint32_t operation(Store& store) noexcept {
    bool known = of_thread.operation_blob != 0 && of_thread.pid == of_process.pid && stack() == nullptr;
    return __builtin_expect(known, 1) ? of_thread.operation_blob : look_up_operation(store);
}

// A buffer was put into the live table: when the operation returns, the shape of its tensor will be known, and whether
// it has one.
[[gnu::hot]] void made(uint32_t slot, const Record& record) noexcept;

// A program was made: what an operation allocates meanwhile and does not return, its program has.
void program_made() noexcept;

// Starts following ttnn's operations if Python and ttnn are there and the caller holds the GIL. Cheap to repeat:
// ttnn may have put its own call function back since.
void follow_operations(Store& store) noexcept;

}  // namespace ttmem
