// SPDX-License-Identifier: Apache-2.0
// What the agent shares with its readers: one sealed memory file with a header, meshes, chips, meters, a ring, a live
// table and blobs. src/ttmem/wire/agent_ring.py is the same layout for Python; a test (test_ring_layout.py) compares
// them.
//
//   0          header
//   meshes_at  meshes: a mesh or submesh with its geometry and its last audit; a single chip is a 1x1 mesh
//   chips_at   chips: unique id, Metal's number, architecture
//   meters_at  meters: what is held now and was at most, first of all chips together, then of groups of chips
//   ring_at    ring: the last ring_slots records, slot = sequence % ring_slots; overwritten, never waited for
//   table_at   live table: the ALLOCATED record of everything live; sequence 0 marks a free slot
//   blobs_at   blobs: names, core sets and chip lists, written once, found by offset
//
// One writer at a time (a spin lock inside the process). A record is complete when header.head has reached its
// sequence, so a writer killed half way leaves nothing a reader would take for a record.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ttmem {

constexpr uint64_t kMagic = 0x676e726d656d7474;  // "ttmemrng"
constexpr uint32_t kVersion = 4;

constexpr uint32_t kRingSlots = 1u << 16;
constexpr uint32_t kTableSlots = 1u << 18;
constexpr uint32_t kMeshes = 256;
constexpr uint32_t kChips = 256;
constexpr uint32_t kMeters = kChips + 1;
constexpr uint32_t kBlobBytes = 32u << 20;

enum class Event : uint8_t {
    kNone = 0,
    kOpened = 1,        // mesh; size = bytes in its banks from before the agent could see, which have no records
    kClosing = 2,       // mesh; everything it held is still in the table
    kClosed = 3,        // mesh; everything it held was freed before this record
    kAllocated = 4,     // an allocation, which has that table slot
    kFreed = 5,         // the allocation in that table slot
    kProgram = 6,       // a program's frame: size = bytes of the kernel ring it needs, address = Metal's program id
    kRun = 7,           // program was launched on its cores
    kDestroyed = 8,     // program and all its parts are gone
    kCacheCleared = 9,  // the program cache of a mesh was emptied on request
    kPhaseBegan = 10,   // of the workload's own naming: address = its number, size = that of the phase around it or 0
    kPhaseEnded = 11,   // address = its number
    kFailed = 12,       // tt-metal threw: name = its text, cores = blob of the operation and stack, or 0
    kNamed = 13,        // more is known of the allocation in that table slot: name = blob, cores as they were
};

// The first five are tt-metal's BufferType codes; the numbers are those of ttmem.model.kinds.
enum class Kind : uint8_t {
    kDram = 0,
    kL1 = 1,
    kHost = 2,
    kL1Small = 3,
    kTrace = 4,
    kCb = 5,
    kDfb = 6,
    kScratchpad = 7,
    kKernel = 8,
    kFabricKernel = 9,
    kDispatchKernel = 10,
    kFirmware = 11,
    kProgramFrame = 255,
};

constexpr uint8_t kShared = 1;     // lies inside an L1 buffer that is counted already
constexpr uint8_t kWholesale = 2;  // freed with everything else of its allocator
constexpr uint8_t kBinary = 4;     // a DRAM buffer that holds a workload's kernel binaries
constexpr uint8_t kRan = 8;        // of a program frame in the table: it has run, last at its time
constexpr uint8_t kKept = 16;      // an operation that made a program made it, too, and did not return it
constexpr uint8_t kPerCore = 32;   // a buffer with an address of its own on each core: `address` is that of the first

// Ring slot and table slot alike.
struct Record {
    uint64_t sequence;  // from 1; in the table: of the record that made the allocation
    uint64_t time;      // CLOCK_MONOTONIC, nanoseconds
    Event event;
    Kind kind;
    uint8_t layout;  // tt-metal's TensorMemoryLayout code, 255 unknown
    uint8_t flags;
    uint32_t thread;  // kernel thread id
    uint64_t address;
    uint64_t size;        // bytes on one chip, all cores and banks together
    uint32_t per_bank;    // bytes in each bank or on each core
    uint32_t slot;        // in the live table, kNoSlot for other events
    uint16_t mesh;        // index of the mesh
    uint16_t core_count;  // cores that hold pages of a sharded buffer, 0 for interleaved
    uint32_t cores;       // blob: core set, or 0
    uint32_t program;     // the agent's own number of the program, 0 for none
    uint32_t name;        // blob: the kernel's name, or the ttnn operation and, in further lines, shape and stack; or 0
};
static_assert(sizeof(Record) == 64, "a record is one cache line");
constexpr uint32_t kNoSlot = 0xffffffff;

struct Bank {
    uint64_t size;  // bytes of one bank the allocator can give out
    uint64_t ours;  // reserved bytes per bank at the last audit, by the live table
    uint64_t theirs;
    uint64_t largest_free;
    uint32_t banks;
    uint32_t unit;  // what sizes in this bank are rounded up to
};
static_assert(sizeof(Bank) == 40);

struct Mesh {
    uint32_t turn;     // odd while it is being written
    uint32_t state;    // 0 unused, kMeshOpen, kMeshClosed
    uint32_t mesh_id;  // of the MeshDevice, kNoMeshId for a chip that was opened by itself
    uint32_t parent;   // index of the mesh whose allocator it uses: its own unless it is a submesh
    uint32_t chips;    // blob: indices of chips, u16 each
    uint32_t chip_count;
    uint32_t arch;
    uint32_t cores;  // blob: the compute grid
    uint64_t l1_size;
    uint64_t l1_base;
    uint64_t dram_base;
    uint64_t buffers_ours;
    uint64_t buffers_theirs;
    uint64_t audits;
    uint64_t mismatches;
    uint64_t audited;  // time of the last one
    uint64_t map_end;  // where a core's firmware ends and its kernel ring begins, 0 unknown
    Bank banks[5];     // by BufferType
    uint8_t spare[208];
};
static_assert(sizeof(Mesh) == 512);
constexpr uint32_t kNoMeshId = 0xffffffff;
constexpr uint32_t kMeshOpen = 1, kMeshClosed = 2;

struct Chip {
    uint64_t unique_id;  // 0: the cluster descriptor has none
    uint32_t number;     // Metal's id in this process
    uint32_t arch;
    uint32_t board;   // UMD's BoardType code, kNoBoard if unknown
    uint32_t remote;  // 0 or 1, 2 unknown
    uint8_t spare[40];
};
static_assert(sizeof(Chip) == 64);
constexpr uint32_t kNoBoard = 0xffffffff;

// What is held of one kind or pool, in bytes.
struct Meter {
    uint64_t used;
    uint64_t reserved;  // what the allocators took; the parts of programs lie outside their banks
    uint64_t peak;      // of used, since the peaks were last reset
    uint64_t reserved_peak;
};
static_assert(sizeof(Meter) == 32);

// What there is a meter for: every kind, and two pools. A pool shares a cache line with the kind that is busiest in it.
enum class Gauge : uint8_t {
    kDramPool = 0,  // DRAM, TRACE
    kDram = 1,
    kL1Pool = 2,  // L1, L1_SMALL, CB, DFB, SCRATCHPAD, KERNEL, FIRMWARE
    kL1 = 3,
    kHost = 4,
    kL1Small = 5,
    kTrace = 6,
    kCb = 7,
    kDfb = 8,
    kScratchpad = 9,
    kKernel = 10,
    kFabricKernel = 11,
    kDispatchKernel = 12,
    kFirmware = 13,
};
constexpr uint32_t kGauges = 14;

// Of each of some chips that were always part of the same meshes, and therefore hold the same. The first has no chips
// of its own: it is the sum over all of them.
struct Meters {
    uint64_t chips[4];  // bit per chip
    uint8_t spare[32];
    Meter gauges[kGauges];
};
static_assert(sizeof(Meters) == 512);
static_assert(sizeof(Meters::chips) * 8 == kChips);

struct Header {
    uint64_t magic;
    uint32_t version;
    uint32_t pid;  // as the process sees itself
    uint64_t total;
    uint32_t meshes_at, meshes;
    uint32_t chips_at, chips;
    uint32_t ring_at, ring_slots;
    uint32_t table_at, table_slots;
    uint32_t blobs_at, blobs_size;
    uint64_t started;   // CLOCK_MONOTONIC, nanoseconds
    uint64_t coverage;  // bit per kind that the hooks of this wheel can see
    uint32_t meters_at, meters;
    uint8_t spare[40];
    // From here on it changes.
    uint64_t head;  // sequence of the newest complete record
    uint32_t table_high;
    uint32_t blobs_used;
    uint32_t meshes_used;
    uint32_t chips_used;
    uint64_t table_full;  // allocations without a record because the table was full
    uint64_t blobs_full;
    uint64_t unknown_frees;
    uint64_t replaced;     // an address was handed out that the table thought taken
    uint64_t names;        // 1 once ttnn's operations are named
    uint64_t failures;     // times the agent gave up on something because tt-metal threw
    uint64_t meshes_full;  // allocators not followed because all meshes were open
    uint64_t meters_used;
    uint64_t earlier_frees;  // of buffers from before the agent could see
    uint8_t spare2[32];
    char wheel[256];    // path of libtt_metal.so
    char trouble[512];  // what is inert and why, one sentence each, separated by newlines
    uint8_t rest[3072];
};
static_assert(sizeof(Header) == 4096);
static_assert(offsetof(Header, head) == 128);
static_assert(offsetof(Header, wheel) == 256);

}  // namespace ttmem
