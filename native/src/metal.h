// SPDX-License-Identifier: Apache-2.0
// The functions of libtt_metal.so that the agent calls or stands in for, found by name in the copy a caller uses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "buffer_fields.h"
#include "layout.h"

namespace ttmem {

// Functions the agent stands in for. Their order is that of the bits in Metal::called.
enum Hook : uint32_t {
#define TTMEM_HOOK(name, ...) kHook_##name,
#include "symbols.def"
    kHookCount
};

// Functions the agent only calls, also those that it calls with older wheels.
enum Call : uint32_t {
#define TTMEM_CALL(name, ...) kCall_##name,
#define TTMEM_OLDER(name, ...) kCall_##name,
#include "symbols.def"
    kCallCount
};

// Ways to do without functions that older wheels lack.
enum Substitute : uint32_t {
#define TTMEM_SUBSTITUTE(name, ...) kSubstitute_##name,
#include "symbols.def"
};

constexpr int kMostCopies = 4;

// An object that a function of tt-metal returned by value. It holds memory of tt-metal's operator new, which may be
// another than ours, so it is never destroyed here: its contents are copied, and its memory is given back.
template <typename T>
struct Returned {
    union {
        T value;
    };
    ~Returned() {}
    Returned(const Returned&) = delete;
    Returned& operator=(const Returned&) = delete;
};

// One loaded copy of libtt_metal.so. What a cached operation needs comes first, on two cache lines.
struct alignas(64) Metal {
    uintptr_t begin, end;                    // where it lies
    uintptr_t launcher_begin, launcher_end;  // where the object lies that launched first: _ttnncpp.so
    uint64_t coverage;                       // bit per kind that can be seen
    // Of those below, once more.
    void *allocate_buffer, *deallocate_buffer, *enqueue;
    void *buffer_per_bank, *compile_workload, *load_binaries;
    BufferFields fields;

    uintptr_t code_end;  // as end, but known earlier
    void* hooks[kHookCount];
    void* calls[kCallCount];
    uint64_t called;               // bit per hook: the library calls it in a way that can be stood in for
    bool odd_programs;             // older than any whose programs could be compared with what ttnn itself says of them
    void* (*exception_globals)();  // of the C++ runtime that libtt_metal throws with
    void (*operator_delete)(void*);  // the one that libtt_metal calls; nullptr if it cannot be found
    char path[256];
    char trouble[512];

    bool covers(Kind kind) const { return coverage >> static_cast<uint8_t>(kind) & 1; }
    // To be called after an exception of tt-metal's was caught and dropped. It was thrown with another copy of the
    // C++ runtime than ours, which still counts it as on its way.
    void swallowed() const noexcept;

    // The first is for those that have a place of their own above.
    template <typename F>
    static F real(void* function) {
        return reinterpret_cast<F>(function);
    }
    template <typename F>
    F real(Hook hook) const {
        return reinterpret_cast<F>(hooks[hook]);
    }
    template <typename R, typename... A>
    R call(Call call, A... arguments) const {
        return reinterpret_cast<R (*)(A...)>(calls[call])(arguments...);
    }
    bool has(Call call) const { return calls[call] != nullptr; }

    // What a function returned by value, as an object of ours.
    template <typename T, typename... A>
    T copy_of(Call which, A... arguments) const {
        auto returned = call<Returned<T>>(which, arguments...);
        T copy(returned.value);
        release(returned.value);
        return copy;
    }
    // Gives memory back that tt-metal's operator new made.
    void release(void* block) const {
        if (block != nullptr && operator_delete != nullptr) {
            operator_delete(block);
        }
    }

private:
    template <typename T>
    void release(std::vector<T>& list) const {
        release(static_cast<void*>(list.data()));
    }
    void release(std::string& text) const {
        char* object = reinterpret_cast<char*>(&text);
        bool inside = text.data() >= object && text.data() < object + sizeof(text);  // a short one
        release(inside ? nullptr : static_cast<void*>(text.data()));
    }
};
static_assert(offsetof(Metal, fields) + sizeof(BufferFields) <= 128, "two cache lines");

// Does this copy lack the functions that the substitute is for, and has it those that the substitute needs?
bool applies(const Metal& metal, Substitute substitute) noexcept;

// Puts replacements into metal.calls for functions that older wheels lack (some of Buffer's before 0.79, the one for
// scratchpads before 0.80) or that return more there than the agent expects (the statistics until 0.68). Fields of a
// Buffer are read in place only if functions that the wheel does have confirm their offsets. `number` is that of the
// copy.
void stand_in_for_missing(Metal& metal, int number) noexcept;

// Nearly always the only copy: looked at first.
extern Metal first_copy;
const Metal& other_metal_of(void* caller) noexcept;

// Does an address lie there? `end` is 0 until the rest is known as well.
inline bool lies_in(void* address, const uintptr_t& begin, const uintptr_t& end) noexcept {
    const uintptr_t at = reinterpret_cast<uintptr_t>(address);
    return __builtin_expect(at < __atomic_load_n(&end, __ATOMIC_ACQUIRE) && at >= begin, 1);
}

// The copy that the code at this address belongs to or links against. Never fails: a hook that was reached has a
// real function behind it.
inline const Metal& metal_of(void* caller) noexcept {
    return lies_in(caller, first_copy.begin, first_copy.end) ? first_copy : other_metal_of(caller);
}

const Metal& metal_of_other_launcher(void* caller) noexcept;

// The same for a function that tt-metal does not call itself: ttnn does.
inline const Metal& metal_of_launcher(void* caller) noexcept {
    bool first = lies_in(caller, first_copy.launcher_begin, first_copy.launcher_end);
    return first ? first_copy : metal_of_other_launcher(caller);
}

}  // namespace ttmem
