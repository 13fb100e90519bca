// SPDX-License-Identifier: Apache-2.0
// A libtt_metal.so whose allocator does nothing: what an allocation costs here is what the agent adds to it.
#include <cstddef>
#include <cstdint>
#include <vector>

#define NAMED(symbol) __asm__(symbol)
#define API extern "C" __attribute__((visibility("default"), noinline))

struct Buffer {
    uint64_t address, size, per_bank;
    uint32_t type, layout;
    void* device;
};
struct Statistics {
    uint64_t total, allocated, free, largest_free;
};

API uint64_t allocate_buffer(void*, Buffer*) NAMED("_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE");
API void deallocate_buffer(void*, Buffer*) NAMED("_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE");
API void deallocate_buffers(void*) NAMED("_ZN2tt8tt_metal13AllocatorImpl18deallocate_buffersEv");
API void clear(void*) NAMED("_ZN2tt8tt_metal13AllocatorImpl5clearEv");
API void allocator_gone(void*) NAMED("_ZN2tt8tt_metal13AllocatorImplD2Ev");
API bool mesh_close(void*, void*) NAMED("_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE");
API uint64_t buffer_size(Buffer* b) NAMED("_ZNK2tt8tt_metal6Buffer4sizeEv");
API uint32_t buffer_type(Buffer* b) NAMED("_ZNK2tt8tt_metal6Buffer11buffer_typeEv");
API uint32_t buffer_layout(Buffer* b) NAMED("_ZNK2tt8tt_metal6Buffer13buffer_layoutEv");
API void* buffer_device(Buffer* b) NAMED("_ZNK2tt8tt_metal6Buffer6deviceEv");
API uint64_t buffer_address(Buffer* b) NAMED("_ZNK2tt8tt_metal6Buffer7addressEv");
API uint64_t buffer_per_bank(Buffer* b) NAMED("_ZNK2tt8tt_metal6Buffer21aligned_size_per_bankEv");
API uint32_t alignment(void*, uint32_t) NAMED("_ZNK2tt8tt_metal13AllocatorImpl13get_alignmentENS0_10BufferTypeE");
API uint32_t num_banks(void*, const uint32_t*) NAMED("_ZNK2tt8tt_metal13AllocatorImpl13get_num_banksERKNS0_10BufferTypeE");
API uint64_t bank_size(void*, const uint32_t*) NAMED("_ZNK2tt8tt_metal13AllocatorImpl13get_bank_sizeERKNS0_10BufferTypeE");
API uint64_t base(void*, const uint8_t*) NAMED("_ZNK2tt8tt_metal13AllocatorImpl23get_base_allocator_addrERKNS0_10HalMemTypeE");
API Statistics statistics(void*, const uint32_t*) NAMED("_ZNK2tt8tt_metal13AllocatorImpl14get_statisticsERKNS0_10BufferTypeE");
API uint64_t num_buffers(void*) NAMED("_ZNK2tt8tt_metal13AllocatorImpl25get_num_allocated_buffersEv");
API uint32_t mesh_id(void*) NAMED("_ZNK2tt8tt_metal11distributed10MeshDevice2idEv");
API uint32_t mesh_arch(void*) NAMED("_ZNK2tt8tt_metal11distributed10MeshDevice4archEv");
std::vector<void*> mesh_devices(void*) NAMED("_ZNK2tt8tt_metal11distributed10MeshDevice11get_devicesEv");
extern "C" __attribute__((visibility("default"))) void* mesh_vtable[6] NAMED("_ZTVN2tt8tt_metal11distributed10MeshDeviceE");

uint64_t allocate_buffer(void*, Buffer* b) { return b->address; }
void deallocate_buffer(void*, Buffer*) {}
void deallocate_buffers(void*) {}
void clear(void*) {}
void allocator_gone(void*) {}
bool mesh_close(void*, void*) { return true; }
uint64_t buffer_size(Buffer* b) { return b->size; }
uint32_t buffer_type(Buffer* b) { return b->type; }
uint32_t buffer_layout(Buffer* b) { return b->layout; }
void* buffer_device(Buffer* b) { return b->device; }
uint64_t buffer_address(Buffer* b) { return b->address; }
uint64_t buffer_per_bank(Buffer* b) { return b->per_bank; }
uint32_t alignment(void*, uint32_t) { return 32; }
uint32_t num_banks(void*, const uint32_t* type) { return *type == 0 ? 12 : *type == 1 ? 64 : 0; }
uint64_t bank_size(void*, const uint32_t*) { return 1 << 30; }
uint64_t base(void*, const uint8_t*) { return 105824; }
Statistics statistics(void*, const uint32_t*) { return {1 << 30, 0, 1 << 30, 1 << 30}; }
uint64_t num_buffers(void*) { return 0; }
uint32_t mesh_id(void*) { return 1; }
uint32_t mesh_arch(void*) { return 2; }

static void* mesh_object = &mesh_vtable[2];
std::vector<void*> mesh_devices(void*) { return {&mesh_object}; }
void* mesh_vtable[6] = {nullptr, nullptr, nullptr, nullptr, reinterpret_cast<void*>(mesh_arch), reinterpret_cast<void*>(mesh_id)};

// Called through the linkage table, like everything here; what a call costs that nobody stands in for.
API void tiny_empty(Buffer*);
void tiny_empty(Buffer*) { asm volatile(""); }

API void tiny_calls(uint64_t count);
void tiny_calls(uint64_t count) {
    static Buffer buffer{};
    for (uint64_t i = 0; i < count; i++) {
        tiny_empty(&buffer);
    }
}

// Allocates and frees `count` buffers, `live` of them at a time.
API void tiny_pairs(uint64_t count, uint64_t live);
void tiny_pairs(uint64_t count, uint64_t live) {
    static int allocator;
    std::vector<Buffer> buffers(live);
    for (uint64_t i = 0; i < live; i++) {
        buffers[i] = {1048640 + i * 4096, 4096, 4096, static_cast<uint32_t>(i & 1), 0, &mesh_object};
    }
    for (uint64_t done = 0; done < count; done += live) {
        for (Buffer& buffer : buffers) {
            allocate_buffer(&allocator, &buffer);
        }
        for (Buffer& buffer : buffers) {
            deallocate_buffer(&allocator, &buffer);
        }
    }
}

// Allocates or frees one of 100 buffers.
API void tiny_one(uint64_t number, bool allocate);
void tiny_one(uint64_t number, bool allocate) {
    static int allocator;
    static Buffer buffers[100];
    Buffer& buffer = buffers[number % 100];
    buffer = {1048640 + number % 100 * 4096, 4096, 4096, static_cast<uint32_t>(number & 1), 0, &mesh_object};
    allocate ? static_cast<void>(allocate_buffer(&allocator, &buffer)) : deallocate_buffer(&allocator, &buffer);
}

// Never called; but a library whose functions nobody calls through its table is none the agent believes in.
API void tiny_end(void* allocator);
void tiny_end(void* allocator) {
    deallocate_buffers(allocator);
    clear(allocator);
    allocator_gone(allocator);
    mesh_close(allocator, allocator);
}
