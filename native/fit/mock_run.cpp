// SPDX-License-Identifier: Apache-2.0
// libttmem_fit.so, which `ttmem fit` loads with LD_PRELOAD before the agent. It makes what does not work on mock
// devices do nothing, keeps the process away from real devices, and reports both as lines in the file TTMEM_FIT_REPORT.
//
// It is a library and not a hook of Python, because that would be lost under `python -I`, and another sitecustomize of
// the user could replace it.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include "real_functions.h"

namespace {

using ttmem_fit::next;
using ttmem_fit::report;

constexpr int kUnsupported = 70;  // exit code of a process that made a call that cannot be answered
constexpr char kDevices[] = "/dev/tenstorrent";

struct Span {
    const void* data;
    size_t size;
};

std::atomic<uint32_t> next_trace{1};
std::atomic<bool> capturing{false};
std::atomic<uint64_t> captured{0};  // launches in the trace that is captured
std::atomic<uint64_t> launched{0};  // all launches

[[noreturn]] void unsupported(const char* call) {
    report(call);
    fprintf(stderr, "ttmem fit: %s does not work on mock devices, so this run ends here\n", call);
    fflush(nullptr);
    _exit(kUnsupported);
}

// The command is in a session of its own, so it would run on if `ttmem fit` were killed.
__attribute__((constructor)) void end_with_parent() {
    const char* parent = getenv("TTMEM_FIT_PARENT");
    if (parent != nullptr && atoi(parent) == getppid()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
}

void begin() {
    captured.store(0);
    capturing.store(true);
}

void end() {
    if (capturing.exchange(false)) {
        report("trace", captured.load());
    }
}

}  // namespace

// Declares every function under the name of the one that it stands in for, and its name as a constant.
#define TTMEM_FIT(name, result, parameters, symbol)            \
    TTMEM_EXPORT result ttmem_fit_##name parameters __asm__(symbol); \
    static constexpr char kSymbol_##name[] [[maybe_unused]] = symbol;
#include "symbols.def"

uint32_t ttmem_fit_begin_trace(void*, uint8_t) {
    begin();
    return next_trace.fetch_add(1);
}

uint32_t ttmem_fit_begin_trace_on(void*, void*) {
    begin();
    return next_trace.fetch_add(1);
}

void ttmem_fit_begin_trace_as(void*, uint8_t, const uint32_t*) { begin(); }

void ttmem_fit_begin_trace_on_as(void*, void*, const uint32_t*) { begin(); }

void ttmem_fit_end_trace(void*, uint8_t, const uint32_t*) { end(); }

void ttmem_fit_end_trace_on(void*, void*, const uint32_t*) { end(); }

void ttmem_fit_replay_trace(void*, uint8_t, const uint32_t*, bool) {}

void ttmem_fit_replay_trace_on(void*, void*, const uint32_t*, bool) {}

void ttmem_fit_release_trace(void*, const uint32_t*) {}

// The last statement must stay a jump: the agent finds tt-metal by the library that it returns to.
void ttmem_fit_enqueue(void* queue, void** workload, bool blocking) {
    static const auto real = next<void (*)(void*, void**, bool)>(kSymbol_enqueue, TTMEM_CALLER);
    static const char* most = getenv("TTMEM_FIT_MOST_LAUNCHES");
    if (capturing.load()) {
        captured.fetch_add(1);
    }
    const uint64_t before = launched.fetch_add(1);
    if (most != nullptr && before == strtoull(most, nullptr, 10)) {
        report("stopped", before);
        kill(getpid(), SIGKILL);
    }
    real(queue, workload, blocking);
}

void ttmem_fit_wait_for_event(void*, const void*) {}

void ttmem_fit_wait_for_event_slow(void*, const void*) {}

void ttmem_fit_event_synchronize(const void*) {}

bool ttmem_fit_event_query(const void*) { return true; }

// Without a number, tt-metal takes the queue that the thread has chosen.
void* ttmem_fit_command_queue(const void* mesh, std::optional<uint8_t>) {
    static const auto real = next<void* (*)(const void*, std::optional<uint8_t>)>(kSymbol_command_queue, TTMEM_CALLER);
    return real(mesh, 0);
}

void ttmem_fit_validate(const void* spec, const void* data, void* context, const void* allocator) {
    using Validate = void (*)(const void*, const void*, void*, const void*);
    static const auto real = next<Validate>(kSymbol_validate, TTMEM_CALLER);
    static const bool skipped = getenv("TTMEM_FIT_SKIP_VALIDATION") != nullptr;
    if (!skipped) {
        real(spec, data, context, allocator);
        return;
    }
    static std::atomic<bool> reported{false};
    if (!reported.exchange(true)) {
        report("validation");
    }
}

uint64_t ttmem_fit_create_sub_devices(void*, Span, uint64_t) { unsupported("create_sub_device_manager"); }

uint64_t ttmem_fit_create_sub_devices_listed(void*, Span, uint64_t) { unsupported("create_sub_device_manager"); }

// -- real devices -----------------------------------------------------------------------------------------------------

namespace {

using Open = int (*)(const char*, int, ...);

bool is_device(const char* path) { return path != nullptr && strncmp(path, kDevices, sizeof kDevices - 1) == 0; }

int refuse(const char*) {
    report("device");
    errno = EACCES;
    return -1;
}

mode_t mode_of(int flags, va_list arguments) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

#define TTMEM_OPEN(name)                                                        \
    TTMEM_EXPORT int name(const char* path, int flags, ...) {                   \
        static const auto real = reinterpret_cast<Open>(dlsym(RTLD_NEXT, #name)); \
        va_list arguments;                                                      \
        va_start(arguments, flags);                                             \
        const mode_t mode = mode_of(flags, arguments);                          \
        va_end(arguments);                                                      \
        return is_device(path) && (flags & O_DIRECTORY) == 0 ? refuse(path) : real(path, flags, mode); \
    }

TTMEM_OPEN(open)
TTMEM_OPEN(open64)

// What libraries that were compiled with _FORTIFY_SOURCE call.
#define TTMEM_OPEN_CHECKED(name)                                                \
    TTMEM_EXPORT int name(const char* path, int flags) {                        \
        static const auto real = reinterpret_cast<int (*)(const char*, int)>(dlsym(RTLD_NEXT, #name)); \
        return is_device(path) && (flags & O_DIRECTORY) == 0 ? refuse(path) : real(path, flags); \
    }

TTMEM_OPEN_CHECKED(__open_2)
TTMEM_OPEN_CHECKED(__open64_2)
