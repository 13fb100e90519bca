// SPDX-License-Identifier: Apache-2.0
// Replacements for functions that older wheels lack. Before 0.79 the compiler inlined some of Buffer's functions, so
// the agent reads the fields itself. It does not trust their offsets: it shows functions that these wheels do have a
// blank Buffer with one field filled in, and they must see what was written there. Also here: the older function for
// scratchpads (before 0.80), and statistics that come with a list (until 0.68). mesh_description.cpp asks banks for
// their cores where has_bank is missing (before 0.78).
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <tuple>

#include "metal.h"
#include "metal_objects.h"

namespace ttmem {

namespace {

// Of a Buffer in 0.67 to 0.78.
constexpr size_t kDevice = 0x10, kSize = 0x18, kType = 0x20, kLayout = 0x24;
constexpr size_t kPaper = 1024;  // more than a Buffer has

const Metal* copies[kMostCopies];
void* real_statistics[kMostCopies];

template <typename T>
T field(const void* object, size_t offset) {
    T value;
    std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof(value));
    return value;
}

uint64_t size_field(const void* buffer) { return field<uint64_t>(buffer, kSize); }
uint32_t type_field(const void* buffer) { return field<uint32_t>(buffer, kType); }
uint32_t layout_field(const void* buffer) { return field<uint32_t>(buffer, kLayout); }

// A pointer to something that begins as a device does; nullptr for anything else. The kernel reads it for us: what is
// no pointer at all is an error then, and not the end of the program.
template <int number>
void* device_field(const void* buffer) {
    void* device = field<void*>(buffer, kDevice);
    const char* table = nullptr;
    iovec here{&table, sizeof(table)}, there{device, sizeof(table)};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof(table))) {
        return nullptr;
    }
    const void* start = table - 16;
    bool known = start == copies[number]->calls[kCall_mesh_vtable] || start == copies[number]->calls[kCall_chip_vtable];
    return known ? device : nullptr;
}

// Until 0.68 a vector comes behind the numbers, and is ours to free.
template <int number>
Statistics statistics_without_list(void* allocator, const int* type) {
    Statistics statistics;
    constexpr uint64_t kUntouched = ~0ull;
    for (uint64_t& word : statistics.room) {
        word = kUntouched;
    }
    using Function = void (*)(Statistics*, void*, const int*);  // how a class is returned by value
    reinterpret_cast<Function>(real_statistics[number])(&statistics, allocator, type);
    auto [begin, end, limit] = std::tie(statistics.room[0], statistics.room[1], statistics.room[2]);
    if (begin != kUntouched && begin % alignof(std::max_align_t) == 0 && begin <= end && end <= limit) {
        copies[number]->release(reinterpret_cast<void*>(begin));
    }
    return statistics;
}

struct StandIns {
    void* (*device)(const void*);
    Statistics (*statistics)(void*, const int*);
};
constexpr StandIns kStandIns[] = {
    {device_field<0>, statistics_without_list<0>},
    {device_field<1>, statistics_without_list<1>},
    {device_field<2>, statistics_without_list<2>},
    {device_field<3>, statistics_without_list<3>},
};
static_assert(sizeof(kStandIns) / sizeof(kStandIns[0]) == kMostCopies);

class Paper {
public:
    template <typename T>
    void write(size_t offset, T value) {
        std::memcpy(bytes_ + offset, &value, sizeof(value));
    }
    const void* address() const { return bytes_; }

private:
    alignas(16) unsigned char bytes_[kPaper] = {};
};

bool size_is_there(const Metal& metal) {
    Paper paper;
    for (uint64_t size : {uint64_t{0}, uint64_t{77}, uint64_t{0x1234567890}}) {
        paper.write(kSize, size);
        const uint64_t whole[2] = {0, size}, more[2] = {1, size};  // offset and size of a region
        if (!metal.call<bool>(kCall_buffer_within, paper.address(), &whole[0]) ||
            metal.call<bool>(kCall_buffer_within, paper.address(), &more[0])) {
            return false;
        }
    }
    return true;
}

bool type_is_there(const Metal& metal) {
    Paper paper;
    for (uint32_t type = 0; type <= 4; type++) {
        paper.write(kType, type);
        if (metal.call<bool>(kCall_buffer_is_dram, paper.address()) != (type == 0 || type == 4) ||
            metal.call<bool>(kCall_buffer_is_l1, paper.address()) != (type == 1 || type == 3) ||
            metal.call<bool>(kCall_buffer_is_trace, paper.address()) != (type == 4)) {
            return false;
        }
    }
    return true;
}

bool layout_is_there(const Metal& metal) {
    Paper paper;
    for (uint32_t layout = 0; layout <= 4; layout++) {
        paper.write(kLayout, layout);
        uint64_t cores = metal.call<uint64_t>(kCall_buffer_cores, paper.address());  // optional<uint32_t>
        if ((cores >> 32 & 1) != (layout >= 2)) {
            return false;
        }
    }
    return true;
}

template <typename F>
void put(Metal& metal, Call call, F function) {
    metal.calls[call] = reinterpret_cast<void*>(function);
}

}  // namespace

void stand_in_for_missing(Metal& metal, int number) noexcept {
    copies[number] = &metal;
    if (applies(metal, kSubstitute_scratchpad_arguments)) {
        metal.calls[kCall_kernel_scratchpads] = metal.calls[kCall_kernel_scratchpads_older];
    }
    bool layout = false;
    try {
        if (!applies(metal, kSubstitute_buffer_fields) || !size_is_there(metal) || !type_is_there(metal)) {
            return;
        }
        layout = applies(metal, kSubstitute_buffer_layout_field) && layout_is_there(metal);
    } catch (...) {  // a Buffer that is not as it was
        metal.swallowed();
        return;
    }
#define TTMEM_PROGRAMS_SINCE(name) metal.odd_programs = metal.hooks[kHook_##name] == nullptr;
#include "symbols.def"
    put(metal, kCall_buffer_size, size_field);
    put(metal, kCall_buffer_type, type_field);
    put(metal, kCall_buffer_device, kStandIns[number].device);
    if (layout) {
        put(metal, kCall_buffer_layout, layout_field);
    }
    if (metal.has(kCall_statistics)) {
        real_statistics[number] = metal.calls[kCall_statistics];
        put(metal, kCall_statistics, kStandIns[number].statistics);
    }
}

}  // namespace ttmem
