// SPDX-License-Identifier: Apache-2.0
// Where a Buffer keeps its size, type, layout and address. Four functions of tt-metal return them, each on a page of
// code that is cold whenever an operation allocates. All they do is load a field. So their code is read once, at the
// start: if it is nothing but such loads, and a blank object confirms what they mean, the agent loads the fields
// itself. Otherwise, and on other processors, it calls the functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ttmem {

// A field of an object, or of another object that the first one points to.
struct FieldPlace {
    uint16_t pointer;  // offset of that pointer, kDirect if the field is in the object itself
    uint16_t offset;
    uint16_t guard;  // offset, beside the field, of a byte that is 0 as long as the field must not be read; or kNone
    uint8_t bytes;   // 4 or 8

    static constexpr uint16_t kDirect = 0xffff, kNone = 0xffff;
};

// What a function that returns a field loads, by its machine code; false if it does anything else. Reads at most
// kCodeBytes from there.
constexpr size_t kCodeBytes = 40;
bool decode_getter(const uint8_t* code, FieldPlace& place) noexcept;

struct Metal;

// The fields of a Buffer that every allocation and every free needs.
struct BufferFields {
    bool known;
    bool indirect;
    uint8_t address_bytes;
    uint16_t pointer, size, type, layout, address, allocated;  // offsets

    const char* object_of(const void* buffer) const {
        const char* object = static_cast<const char*>(buffer);
        return indirect ? load<const char*>(object, pointer) : object;
    }
    template <typename T>
    static T load(const char* object, uint16_t offset) {
        T value;
        std::memcpy(&value, object + offset, sizeof(value));
        return value;
    }
};

// Finds them in a copy of libtt_metal.so. Nothing is known if one of the functions is missing or is not that simple.
BufferFields find_buffer_fields(const Metal& metal) noexcept;

}  // namespace ttmem
