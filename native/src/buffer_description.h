// SPDX-License-Identifier: Apache-2.0
// Asks tt-metal about a buffer. Inline, because every allocation and every free passes here.
// To be called without the store's lock.
#pragma once

#include <cstdint>

#include "arithmetic.h"
#include "metal.h"
#include "metal_objects.h"
#include "process_traits.h"

namespace ttmem {

// A buffer that was just allocated.
struct NewBuffer {
    Kind kind;
    uint8_t layout, flags;
    uint16_t cores;
    uint64_t address, size, per_bank;
    uint64_t object;  // the Buffer itself
};

// A buffer that is about to be freed.
struct OldBuffer {
    uint32_t type;
    bool per_core;  // it has an address of its own on each core
    uint64_t address;
    uint64_t per_bank;  // 0 if it was not asked for
    uint64_t object;
};

constexpr uint8_t kInterleaved = 0, kUnknownLayout = 255;  // TensorMemoryLayout

// Has a sharded L1 buffer an address of its own on each core? A wheel that cannot be asked has such buffers only on the
// allocators of its chips, and nothing else that is sharded there.
inline bool is_per_core(const Metal& metal, const ProcessTraits& traits, void* buffer) {
    if (metal.has(kCall_buffer_per_core)) {
        return metal.call<bool>(kCall_buffer_per_core, buffer);
    }
    void* device = traits.hybrid ? metal.call<void*>(kCall_buffer_device, buffer) : nullptr;
    return device != nullptr && !is_mesh(metal, device) && metal.has(kCall_buffer_layout) &&
           metal.call<uint32_t>(kCall_buffer_layout, buffer) != kInterleaved;
}

// Adds what is to be known beside address and flags. False if it is no buffer that takes memory of a device.
inline __attribute__((always_inline)) bool describe_new(const Metal& metal, const ProcessTraits& traits,
                                                        void* allocator, void* buffer, NewBuffer& found) {
    uint32_t type;
    const BufferFields& fields = metal.fields;
    if (__builtin_expect(fields.known, 1)) {
        const char* object = fields.object_of(buffer);
        type = fields.load<uint32_t>(object, fields.type);
        found.size = fields.load<uint64_t>(object, fields.size);
        found.layout = static_cast<uint8_t>(fields.load<uint32_t>(object, fields.layout));
    } else {
        type = metal.call<uint32_t>(kCall_buffer_type, buffer);
        found.size = metal.call<uint64_t>(kCall_buffer_size, buffer);
        found.layout = metal.has(kCall_buffer_layout)
                           ? static_cast<uint8_t>(metal.call<uint32_t>(kCall_buffer_layout, buffer))
                           : kUnknownLayout;
    }
    found.kind = static_cast<Kind>(type);
    if (found.size == 0 || type >= kBufferTypes || found.kind == Kind::kHost) {
        return false;
    }
    found.object = reinterpret_cast<uint64_t>(buffer);
    found.per_bank = metal.real<uint64_t (*)(void*)>(metal.buffer_per_bank)(buffer);
    if (traits.hybrid && found.kind == Kind::kL1 && metal.has(kCall_buffer_page)) {
        uint64_t page = metal.call<uint64_t>(kCall_buffer_page, buffer);
        uint64_t unit = metal.call<uint32_t>(kCall_alignment, allocator, 0u);
        found.per_bank = page == 0 ? found.per_bank : found.per_bank / page * round_up(page, unit);
    }
    if (found.layout != kInterleaved && found.layout != kUnknownLayout && metal.has(kCall_buffer_cores)) {
        found.cores = static_cast<uint16_t>(metal.call<uint32_t>(kCall_buffer_cores, buffer));
        if (found.kind == Kind::kL1 && is_per_core(metal, traits, buffer)) {
            found.flags |= kPerCore;
        }
    }
    return true;
}

// Bytes per bank, and whether it has an address of its own on each core, are asked only if any buffer may need that.
inline __attribute__((always_inline)) OldBuffer describe_old(const Metal& metal, const ProcessTraits& traits,
                                                             void* buffer, bool any_earlier, bool any_per_core) {
    OldBuffer found;
    const BufferFields& fields = metal.fields;
    const char* object = __builtin_expect(fields.known, 1) ? fields.object_of(buffer) : nullptr;
    bool guarded = object == nullptr ||
                   (fields.allocated != FieldPlace::kNone && fields.load<uint8_t>(object, fields.allocated) == 0);
    if (__builtin_expect(!guarded, 1)) {
        found.type = fields.load<uint32_t>(object, fields.type);
        found.address = fields.address_bytes == 4 ? fields.load<uint32_t>(object, fields.address)
                                                  : fields.load<uint64_t>(object, fields.address);
    } else {  // not known, or the function has more to say
        found.type = metal.call<uint32_t>(kCall_buffer_type, buffer);
        found.address = metal.call<uint64_t>(kCall_buffer_address, buffer);
    }
    found.per_bank = any_earlier ? metal.call<uint64_t>(kCall_buffer_per_bank, buffer) : 0;
    found.per_core = any_per_core && static_cast<Kind>(found.type) == Kind::kL1 && is_per_core(metal, traits, buffer);
    found.object = reinterpret_cast<uint64_t>(buffer);
    return found;
}

}  // namespace ttmem
