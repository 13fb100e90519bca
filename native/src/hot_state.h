// SPDX-License-Identifier: Apache-2.0
// What nearly every hook reads or writes: of the process on one cache line, of the thread on another. A cached
// operation leaves little of the agent in the caches, so every further line costs a miss.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ttmem {

struct Stack;

struct alignas(64) ProcessState {
    std::atomic<void*> guard{nullptr};                  // a page of Agent's, which a forked child finds empty
    void* (*real_call)(void*, void*, void*) = nullptr;  // the call slot of ttnn's operations
    std::atomic<uint32_t> programs_made{0};             // so that an operation knows whether it made one
    uint32_t pid = 0;                                   // of the agent; remembered thread ids are of this process
    int stack_depth = 0;                                // frames of Python to take, 0: none at all
    bool stacks_wanted = false;                         // also if they cannot be taken
    // While true the hooks do nothing but call the real functions. For measuring: what happens meanwhile is not seen.
    std::atomic<bool> paused{false};
};
static_assert(sizeof(ProcessState) == 64, "one cache line");

// An operation of ttnn that a thread called lately.
struct RecentOperation {
    const void* object;
    uint32_t operation, blob;  // as in ThreadState
};

// A buffer that the operation made which the thread is in.
struct FreshBuffer {
    uint64_t address, sequence;
    uint32_t slot, operation;
    const Stack* stack;
};

constexpr uint32_t kRecentOperations = 32, kMostFresh = 32;

struct alignas(64) ThreadState {
    const void* passing;        // an exception that was reported; hooks and operations around it see it, too
    const Stack* inside;        // while this thread is in ttnn without the GIL
    const Stack* seen;          // by the hook that runs now
    uint32_t loading_binaries;  // calls that are not finished
    uint32_t fresh_count;       // buffers that the operation made
    uint32_t pid, id;           // its thread id, asked in that process; blobs are of the store of that process
    uint32_t operation;         // number of the ttnn operation that this thread is in; 0: none
    uint32_t operation_blob;    // its name; 0: to be looked up
    bool taking_stack;
    // In this struct as well, so that the thread's memory is looked up only once.
    alignas(64) RecentOperation recent[kRecentOperations];  // by a hash of the object
    FreshBuffer fresh[kMostFresh];
};
static_assert(offsetof(ThreadState, recent) == 64, "one cache line before it");
// Every thread has one, and the agent's are in the block that glibc makes at the start of a process: it has no room for
// as much later, for example after `import torch`.
static_assert(sizeof(ThreadState) <= 1600);

extern ProcessState of_process;
extern __thread ThreadState of_thread;  // as thread_local, but other files access it without a call

}  // namespace ttmem
