// SPDX-License-Identifier: Apache-2.0
// What the agent shares with its readers: one sealed memory file with a header, meshes, chips, meters, a ring, a live
// table and blobs. src/ttmem/wire/agent_ring.py is the same layout for Python; a test (test_ring_layout.py) compares
// them.
//
//   0           header
//   meshes_at   meshes: a mesh or submesh with its geometry and its last audit; a single chip is a 1x1 mesh
//   chips_at    chips: unique id, Metal's number, architecture
//   meters_at   meters: what is held now, one for each gauge of all chips together, then one for each group of chips
//   groups_at   groups: of each meter its gauge, its chips, and how high it was
//   windows_at  windows: the highest value of each meter, for each of the last stretches of half a ring
//   phases_at   phases that are open: of each its begin, and of each meter its value then and its highest since
//   ring_at     ring: the last ring_slots records, slot = sequence % ring_slots; overwritten, never waited for
//   table_at    live table: the ALLOCATED record of everything live; sequence 0 marks a free slot
//   blobs_at    blobs: names, core sets, chip lists and descriptions of meshes, written once, found by offset
//
// One writer at a time (a spin lock inside the process). A record is complete when header.head has reached its
// sequence, so a writer killed half way leaves nothing a reader would take for a record.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ttmem {

constexpr uint64_t kMagic = 0x676e726d656d7474;  // "ttmemrng"
constexpr uint32_t kVersion = 5;

constexpr uint32_t kRingSlots = 1u << 16;
constexpr uint32_t kTableSlots = 1u << 18;
constexpr uint32_t kMeshes = 256;
constexpr uint32_t kChips = 256;
constexpr uint32_t kMeters = 4096;
constexpr uint32_t kWindows = 64;
constexpr uint32_t kWindowRecords = kRingSlots / 2;
constexpr uint32_t kOpenPhases = 64;
constexpr uint32_t kBlobBytes = 32u << 20;

enum class Event : uint8_t {
    kNone = 0,
    kOpened = 1,     // mesh; name = blob: its row up to the spare bytes as it was then, without id, opening and audits;
                     // size = bytes in its banks from before the agent could see, which have no records
    kClosing = 2,    // mesh; everything it held is still in the table
    kClosed = 3,     // mesh with its submeshes; everything they held was freed before this record
    kAllocated = 4,  // an allocation, which has that table slot
    kFreed = 5,      // the allocation in that table slot
    kProgram = 6,    // a program's frame: size = bytes of the kernel ring it needs, address = Metal's program id,
                     // per_bank = number of its workload or 0
    kRun = 7,        // a workload was launched, all its programs at once: per_bank = its number, mesh = that with the
                     // allocator, slot and program = those of one of its frames. None if it ran last on that mesh.
    kDestroyed = 8,  // program and all its parts are gone
    kCacheCleared = 9,  // the program cache of a mesh was emptied on request
    kPhaseBegan = 10,   // of the workload's own naming: address = its number, size = that of the phase around it or 0
    kPhaseEnded = 11,   // address = its number
    kFailed = 12,       // tt-metal threw, or an operation found too little L1 for itself: name = its text, cores = blob
                        // of the operation and stack, or 0
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
constexpr uint8_t kRan = 8;        // of a program frame in the table: its workload has run, last at the frame's time
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
    uint64_t opened;   // sequence of its kOpened record: rows are used again, earlier records mean another mesh
    Bank banks[5];     // by BufferType
    uint8_t spare[200];
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

// What is held of one kind or pool, in bytes. Every allocation changes it, so it is small. The highs are those since
// the meters were last folded: only then they are compared with the other figures that are kept of a meter.
struct Meter {
    uint64_t used;
    uint64_t reserved;  // what the allocators took; the parts of programs lie outside their banks
    uint64_t high;      // of used
    uint64_t reserved_high;
};
static_assert(sizeof(Meter) == 32);

// What there is a meter for: every kind, and three pools. A pool shares a cache line with the kind that is busiest in
// it.
enum class Gauge : uint8_t {
    kDramPool = 0,  // DRAM, TRACE
    kDram = 1,
    kL1BufferPool = 2,  // L1, L1_SMALL: what allocators give out
    kL1 = 3,
    kProgramPool = 4,  // CB, DFB, SCRATCHPAD, KERNEL, FIRMWARE: the parts of programs, which take turns in L1
    kCb = 5,
    kHost = 6,
    kL1Small = 7,
    kTrace = 8,
    kDfb = 9,
    kScratchpad = 10,
    kKernel = 11,
    kFabricKernel = 12,
    kDispatchKernel = 13,
    kFirmware = 14,
};
constexpr uint32_t kGauges = 15;

// The chips that always counted the same of one gauge, and therefore share a meter. Of each chip, not their sum. The
// first kGauges are of all chips together and have no chips of their own.
struct Group {
    uint64_t chips[4];  // bit per chip
    uint64_t peak;      // of used, since the workload last reset the peaks, up to the last fold
    uint64_t reserved_peak;
    uint64_t ever;  // of used, since the agent started, up to the last fold
    uint64_t reserved_ever;
    uint32_t gauge;
    uint8_t spare[60];
};
static_assert(sizeof(Group) == 128);
static_assert(sizeof(Group::chips) * 8 == kChips);

struct High {
    uint64_t used, reserved;
};

// The highest value of each meter from just before the first to just after the last record of the window. The row is
// that of the number modulo kWindows.
struct Window {
    uint64_t number;  // from 1; 0 while the row is being cleared for the next one
    uint64_t first;   // sequence
    uint64_t last;    // 0 while it is open: then the highs are those up to the last fold
    uint8_t spare[40];
    High highs[kMeters];
};
static_assert(sizeof(Window) == 64 + 16 * kMeters);

// Of `used` of one meter.
struct Reached {
    uint64_t begin;
    uint64_t peak;  // since then, up to the last fold
};

struct OpenPhase {
    uint64_t began;  // sequence of its kPhaseBegan record; 0: the row is free
    uint64_t ident;
    uint64_t parent;
    uint64_t time;
    uint32_t name;  // blob
    uint8_t spare[28];
    Reached figures[kMeters];
};
static_assert(sizeof(OpenPhase) == 64 + 16 * kMeters);

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
    uint32_t groups_at;  // as many as meters
    uint32_t windows_at, windows;
    uint32_t phases_at, phases;
    uint8_t spare[20];
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
    uint64_t meters_turn;    // odd while meters are split or folded
    uint64_t window;         // number of the window that is open
    uint64_t phases_began;   // all there ever were
    uint64_t phases_full;    // of these, those that had no row because so many were open
    char wheel[256];         // path of libtt_metal.so
    char trouble[512];       // what is inert and why, one sentence each, separated by newlines
    uint8_t rest[3072];
};
static_assert(sizeof(Header) == 4096);
static_assert(offsetof(Header, head) == 128);
static_assert(offsetof(Header, wheel) == 256);

}  // namespace ttmem
