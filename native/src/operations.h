// SPDX-License-Identifier: Apache-2.0
// The ttnn operation a thread is in. Python's calls of operations are followed by standing in for the call slot of
// ttnn's two operation types; the C API of whatever Python is loaded is found by name, none is linked.
#pragma once

#include <cstdint>

#include "store.h"

namespace ttmem {

// Blob with the name of the operation this thread is in, 0 if none. Wants the store's lock.
uint32_t operation(Store& store) noexcept;

// Starts following ttnn's operations if Python and ttnn are there and the caller holds the GIL. Cheap to repeat:
// ttnn may have put its own call function back since.
void follow_operations(Store& store) noexcept;

}  // namespace ttmem
