// SPDX-License-Identifier: Apache-2.0
// ttmem::decode_getter: machine code that is nothing but the load of a field, and code that is almost that. And
// ttmem::find_buffer_fields: what is believed of four such functions.
//
// With a number, it reads so many functions from standard input, one a line in hex, and prints what they load: for a
// test of real wheels.
#include "buffer_fields.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "check.h"
#include "metal.h"

using ttmem::BufferFields;
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

#if defined(__x86_64__)

using Bytes = std::vector<uint8_t>;

// The functions of a Buffer. These load fields of the Buffer itself.
struct Getters {
    Bytes size{0x48, 0x8b, 0x47, 0x18, 0xc3};
    Bytes type{0x8b, 0x47, 0x20, 0xc3};
    Bytes layout{0x8b, 0x47, 0x24, 0xc3};
    Bytes address{0x48, 0x8b, 0x47, 0x28, 0xc3};
};

// As in ttnn 0.81: in an object of their own, and the address only if a flag is set. Otherwise it returns 7.
Getters with_inner_object() {
    return {{0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x40, 0x08, 0xc3},
            {0x48, 0x8b, 0x47, 0x10, 0x8b, 0x40, 0x10, 0xc3},
            {0x48, 0x8b, 0x47, 0x10, 0x8b, 0x40, 0x14, 0xc3},
            {0x48, 0x8b, 0x47, 0x10, 0x80, 0x78, 0x38, 0x00, 0x74, 0x04, 0x8b, 0x40, 0x40, 0xc3,  //
             0xb8, 0x07, 0x00, 0x00, 0x00, 0xc3}};
}

// A library of nothing but these functions; the code ends `missing` bytes too early, and one without code is not there.
class Library {
public:
    explicit Library(const Getters& getters, size_t missing = 0) {
        void* room = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(room != MAP_FAILED);
        code_ = static_cast<uint8_t*>(room);
        std::memset(code_, 0xcc, kBytes);
        put(ttmem::kCall_buffer_size, 0, getters.size);
        put(ttmem::kCall_buffer_type, 1, getters.type);
        put(ttmem::kCall_buffer_layout, 2, getters.layout);
        put(ttmem::kCall_buffer_address, 3, getters.address);
        metal_.begin = reinterpret_cast<uintptr_t>(code_);
        metal_.code_end = metal_.begin + 3 * kSlot + ttmem::kCodeBytes - missing;
        CHECK(mprotect(code_, kBytes, PROT_READ | PROT_EXEC) == 0);
    }
    ~Library() { munmap(code_, kBytes); }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    BufferFields fields() const { return ttmem::find_buffer_fields(metal_); }

private:
    static constexpr size_t kBytes = 4096, kSlot = 64;

    void put(ttmem::Call call, size_t slot, const Bytes& bytes) {
        std::memcpy(code_ + slot * kSlot, bytes.data(), bytes.size());
        metal_.calls[call] = bytes.empty() ? nullptr : code_ + slot * kSlot;
    }

    uint8_t* code_;
    ttmem::Metal metal_{};
};

bool believed(const Getters& getters) { return Library(getters).fields().known; }

void fields_that_are_believed() {
    BufferFields plain = Library(Getters{}).fields();
    CHECK(plain.known && !plain.indirect && plain.address_bytes == 8 && plain.allocated == kNone);
    CHECK(plain.size == 0x18 && plain.type == 0x20 && plain.layout == 0x24 && plain.address == 0x28);
    BufferFields inner = Library(with_inner_object()).fields();
    CHECK(inner.known && inner.indirect && inner.address_bytes == 4 && inner.pointer == 0x10);
    CHECK(inner.size == 8 && inner.type == 0x10 && inner.layout == 0x14 && inner.address == 0x40);
    CHECK(inner.allocated == 0x38);
}

// One of the functions is another one.
bool believed_with(Getters getters, Bytes Getters::* which, const Bytes& code) {
    getters.*which = code;
    return believed(getters);
}

void fields_that_are_not_believed() {
    const Getters plain, inner = with_inner_object();
    CHECK(!Library(plain, 1).fields().known);                 // goes on behind the library
    CHECK(!believed_with(plain, &Getters::layout, Bytes{}));  // not there
    CHECK(!believed_with(plain, &Getters::size, {0x48, 0x8b, 0x47, 0x18, 0x48, 0xff, 0xc0, 0xc3}));  // adds 1
    CHECK(!believed_with(plain, &Getters::size, {0x8b, 0x47, 0x18, 0xc3}));                          // of 4 bytes
    CHECK(!believed_with(plain, &Getters::type, {0x48, 0x8b, 0x47, 0x20, 0xc3}));                    // of 8 bytes
    CHECK(!believed_with(plain, &Getters::type, {0x48, 0x8b, 0x07, 0xff, 0x60, 0x10}));  // a virtual function
    // In another object than the others.
    CHECK(!believed_with(inner, &Getters::size, plain.size));
    CHECK(!believed_with(inner, &Getters::layout, {0x48, 0x8b, 0x47, 0x18, 0x8b, 0x40, 0x14, 0xc3}));
    // Only the address may have a flag.
    CHECK(!believed_with(inner, &Getters::layout, inner.address));
    // The flag is a byte of the address itself: it decodes as in ttnn, but 7 is returned for some addresses.
    Bytes odd = inner.address;
    odd[6] = 0x40;
    odd.resize(ttmem::kCodeBytes, 0xcc);
    FieldPlace place;
    CHECK(decode_getter(odd.data(), place) && place.guard == place.offset);
    CHECK(!believed_with(inner, &Getters::address, odd));
}

#endif

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
#if defined(__x86_64__)
    fields_that_are_believed();
    fields_that_are_not_believed();
#endif
}
