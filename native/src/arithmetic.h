// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ttmem {

// Never below 0.
inline uint64_t subtract(uint64_t value, uint64_t part) { return value > part ? value - part : 0; }

inline uint64_t round_up(uint64_t value, uint64_t unit) { return unit == 0 ? value : (value + unit - 1) / unit * unit; }

}  // namespace ttmem
