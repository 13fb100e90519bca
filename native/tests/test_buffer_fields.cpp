// SPDX-License-Identifier: Apache-2.0
// ttmem::decode_getter: machine code that is nothing but the load of a field, and code that is almost that.
//
// With a number, it reads so many functions from standard input, one a line in hex, and prints what they load: for a
// test of real wheels.
#include "buffer_fields.h"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "check.h"

using ttmem::decode_getter;
using ttmem::FieldPlace;

namespace {

constexpr uint16_t kDirect = FieldPlace::kDirect, kNone = FieldPlace::kNone;

bool decodes(std::initializer_list<uint8_t> bytes, FieldPlace& place) {
    std::vector<uint8_t> code(bytes);
    code.resize(ttmem::kCodeBytes, 0xcc);
    return decode_getter(code.data(), place);
}

bool loads(std::initializer_list<uint8_t> bytes, uint16_t pointer, uint16_t offset, uint8_t size, uint16_t guard) {
    FieldPlace place;
    return decodes(bytes, place) && place.pointer == pointer && place.offset == offset && place.bytes == size &&
           place.guard == guard;
}

bool refused(std::initializer_list<uint8_t> bytes) {
    FieldPlace place;
    return !decodes(bytes, place);
}

void plain_loads() {
    CHECK(loads({0x48, 0x8b, 0x07, 0xc3}, kDirect, 0, 8, kNone));           // mov (%rdi),%rax
    CHECK(loads({0x48, 0x8b, 0x47, 0x18, 0xc3}, kDirect, 0x18, 8, kNone));  // mov 0x18(%rdi),%rax
    CHECK(loads({0x8b, 0x47, 0x1c, 0xc3}, kDirect, 0x1c, 4, kNone));        // mov 0x1c(%rdi),%eax
    CHECK(loads({0x8b, 0x87, 0x40, 0x01, 0, 0, 0xc3}, kDirect, 0x140, 4, kNone));
    CHECK(loads({0xf3, 0x0f, 0x1e, 0xfa, 0x8b, 0x47, 0x1c, 0xc3}, kDirect, 0x1c, 4, kNone));  // after endbr64
}

void loads_through_a_pointer() {
    CHECK(loads({0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x40, 0x08, 0xc3}, 0x10, 8, 8, kNone));
    CHECK(loads({0x48, 0x8b, 0x47, 0x10, 0x8b, 0x40, 0x14, 0xc3}, 0x10, 0x14, 4, kNone));
    CHECK(loads({0x48, 0x8b, 0x47, 0x10, 0x80, 0x78, 0x38, 0x00, 0x74, 0x04, 0x8b, 0x40, 0x40, 0xc3}, 0x10, 0x40, 4,
                0x38));
}

void whatever_else_is_refused() {
    CHECK(refused({0xc3}));
    CHECK(refused({0x48, 0x8b, 0x47, 0x18}));                                // does not return
    CHECK(refused({0x48, 0x8b, 0x47, 0x18, 0x48, 0x83, 0xc0, 0x08, 0xc3}));  // adds something
    CHECK(refused({0x48, 0x8b, 0x46, 0x18, 0xc3}));                          // of another argument
    CHECK(refused({0x48, 0x8b, 0x4f, 0x18, 0xc3}));                          // into another register
    CHECK(refused({0x48, 0x8b, 0x47, 0xf8, 0xc3}));                          // before the object
    CHECK(refused({0x8b, 0x87, 0x00, 0x00, 0x01, 0, 0xc3}));                 // far behind it
    CHECK(refused({0x48, 0x8b, 0xc7, 0xc3}));                                // no load: mov %rdi,%rax
    CHECK(refused({0x8b, 0x47, 0x10, 0x8b, 0x40, 0x14, 0xc3}));              // half a pointer
    CHECK(refused({0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x40, 0x08, 0x48, 0x8b, 0x40, 0x08, 0xc3}));  // a third object
    CHECK(refused({0x48, 0x8b, 0x47, 0x10, 0x80, 0x78, 0x38, 0x01, 0x74, 0x04, 0x8b, 0x40, 0x40, 0xc3}));
    CHECK(refused({0x48, 0x8b, 0x47, 0x10, 0x80, 0x78, 0x38, 0x00, 0x75, 0x04, 0x8b, 0x40, 0x40, 0xc3}));
    CHECK(refused({0x48, 0x8b, 0x07, 0xff, 0x60, 0x10}));  // a virtual function
}

void print_from_input(int count) {
    for (int i = 0; i < count; i++) {
        std::vector<uint8_t> code;
        unsigned byte;
        while (code.size() < ttmem::kCodeBytes && std::scanf("%2x", &byte) == 1) {
            code.push_back(static_cast<uint8_t>(byte));
        }
        CHECK(code.size() == ttmem::kCodeBytes);
        FieldPlace place;
        if (decode_getter(code.data(), place)) {
            std::printf("%u %u %u %u\n", place.pointer, place.offset, place.bytes, place.guard);
        } else {
            std::printf("-\n");
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        print_from_input(std::atoi(argv[1]));
        return 0;
    }
    plain_loads();
    loads_through_a_pointer();
    whatever_else_is_refused();
}
