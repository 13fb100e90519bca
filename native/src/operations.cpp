// SPDX-License-Identifier: Apache-2.0
#include "operations.h"

namespace ttmem {
uint32_t operation(Store&) noexcept { return 0; }
void follow_operations(Store&) noexcept {}
}  // namespace ttmem
