// SPDX-License-Identifier: Apache-2.0
#include "buffer_fields.h"

#include <initializer_list>

#include "metal.h"

namespace ttmem {

namespace {

constexpr size_t kPaper = 4096;  // larger than every offset that is accepted
constexpr uint16_t kMostOffset = 2048;
#if defined(__x86_64__)
constexpr bool kReadsCode = true;
#else
constexpr bool kReadsCode = false;  // on other processors the functions are called
#endif

// Reads machine code of x86-64 from the front. Offsets are one or four bytes, or none.
class Code {
public:
    explicit Code(const uint8_t* bytes) : at_(bytes), end_(bytes + kCodeBytes) {}

    bool skip(std::initializer_list<uint8_t> expected) {
        if (static_cast<size_t>(end_ - at_) < expected.size() ||
            std::memcmp(at_, expected.begin(), expected.size()) != 0) {
            return false;
        }
        at_ += expected.size();
        return true;
    }
    // `mov offset(%rdi),%rax` or, with `from_rax`, `mov offset(%rax),%rax`; of 4 bytes into %eax.
    bool load(bool from_rax, uint8_t& bytes, uint16_t& offset) {
        const uint8_t* before = at_;
        bytes = skip({0x48, 0x8b}) ? 8 : skip({0x8b}) ? 4 : 0;
        if (bytes != 0 && displacement(from_rax ? 0x00 : 0x07, offset)) {
            return true;
        }
        at_ = before;
        return false;
    }
    // `cmpb $0,offset(%rax)` and a short jump forward if it is 0.
    bool guard(uint16_t& offset) {
        const uint8_t* before = at_;
        if (skip({0x80}) && displacement(0x38, offset) && skip({0x00, 0x74}) && at_ < end_ && *at_ < 0x80) {
            at_++;
            return true;
        }
        at_ = before;
        return false;
    }

private:
    // The byte that says which registers, without the two bits for the length of the offset; then the offset.
    bool displacement(uint8_t registers, uint16_t& offset) {
        if (end_ - at_ < 5 || (*at_ & 0x3f) != registers) {
            return false;
        }
        const uint8_t length = *at_ >> 6;
        at_++;
        uint32_t value = 0;
        if (length == 1) {
            value = *at_ < 0x80 ? *at_ : ~0u;  // not negative
            at_++;
        } else if (length == 2) {
            std::memcpy(&value, at_, 4);
            at_ += 4;
        }
        offset = static_cast<uint16_t>(value);
        return length != 3 && value < kMostOffset;
    }

    const uint8_t* at_;
    const uint8_t* end_;
};

// An object of which every word that may be a pointer leads to a second one.
struct Paper {
    alignas(64) unsigned char object[kPaper], inner[kPaper];

    void fill(uint8_t filler) {
        std::memset(inner, filler, sizeof(inner));
        const void* there = inner;
        for (size_t at = 0; at + sizeof(there) <= kPaper; at += sizeof(there)) {
            std::memcpy(object + at, &there, sizeof(there));
        }
    }
    void put(const FieldPlace& place, uint64_t value, uint8_t filler) {
        fill(filler);
        unsigned char* where = place.pointer == FieldPlace::kDirect ? object : inner;
        if (place.guard != FieldPlace::kNone) {
            where[place.guard] = 1;
        }
        std::memcpy(where + place.offset, &value, place.bytes);
    }
};

// Does the function return what stands there, whatever stands beside it?
template <typename T>
bool confirmed(const Metal& metal, Call call, const FieldPlace& place, std::initializer_list<T> values) {
    Paper paper;
    for (T value : values) {
        for (uint8_t filler : {uint8_t{0}, uint8_t{0x5a}, uint8_t{0xff}}) {
            paper.put(place, value, filler);
            if (metal.call<T>(call, static_cast<const void*>(paper.object)) != value) {
                return false;
            }
        }
    }
    return true;
}

bool find(const Metal& metal, Call call, FieldPlace& place) {
    const uint8_t* code = static_cast<const uint8_t*>(metal.calls[call]);
    uintptr_t address = reinterpret_cast<uintptr_t>(code);
    bool whole = kReadsCode && code != nullptr && address >= metal.begin && address + kCodeBytes <= metal.code_end;
    return whole && decode_getter(code, place);
}

}  // namespace

bool decode_getter(const uint8_t* bytes, FieldPlace& place) noexcept {
    Code code(bytes);
    code.skip({0xf3, 0x0f, 0x1e, 0xfa});  // endbr64
    place = {FieldPlace::kDirect, 0, FieldPlace::kNone, 0};
    if (!code.load(false, place.bytes, place.offset)) {
        return false;
    }
    if (code.skip({0xc3})) {  // ret
        return true;
    }
    if (place.bytes != sizeof(void*)) {
        return false;
    }
    place.pointer = place.offset;
    uint16_t guard;
    if (code.guard(guard)) {
        place.guard = guard;
    }
    return code.load(true, place.bytes, place.offset) && code.skip({0xc3});
}

BufferFields find_buffer_fields(const Metal& metal) noexcept {
    FieldPlace size, type, layout, address;
    bool found = find(metal, kCall_buffer_size, size) && find(metal, kCall_buffer_type, type) &&
                 find(metal, kCall_buffer_layout, layout) && find(metal, kCall_buffer_address, address);
    bool alike = found && size.bytes == 8 && type.bytes == 4 && layout.bytes == 4 && size.pointer == type.pointer &&
                 size.pointer == layout.pointer && size.pointer == address.pointer && size.guard == FieldPlace::kNone &&
                 type.guard == FieldPlace::kNone && layout.guard == FieldPlace::kNone;
    try {
        if (alike && confirmed<uint64_t>(metal, kCall_buffer_size, size, {0, 77, 0x1234567890}) &&
            confirmed<uint32_t>(metal, kCall_buffer_type, type, {0, 1, 2, 3, 4}) &&
            confirmed<uint32_t>(metal, kCall_buffer_layout, layout, {0, 1, 2, 3, 4}) &&
            confirmed<uint64_t>(metal, kCall_buffer_address, address, {0, 4096, 0xfffffff0})) {
            return {true,          size.pointer != FieldPlace::kDirect,
                    address.bytes, size.pointer,
                    size.offset,   type.offset,
                    layout.offset, address.offset,
                    address.guard};
        }
    } catch (...) {
        metal.swallowed();
    }
    return {};
}

}  // namespace ttmem
