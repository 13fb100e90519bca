// SPDX-License-Identifier: Apache-2.0
// Hands the agent's memory to its readers: the server, and `ttmem run`.
#pragma once

#include "store.h"

namespace ttmem {

// Tries once without waiting, then leaves a thread that tries again and notices when a reader goes away.
void link_up(Store& store) noexcept;

}  // namespace ttmem
