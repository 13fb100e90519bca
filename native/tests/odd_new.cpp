// SPDX-License-Identifier: Apache-2.0
// An operator new that is not malloc, to be preloaded: each block begins after a mark. operator delete aborts for a
// block without the mark, and free() aborts for a block of operator new, because it is not the start of a block of
// malloc.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

constexpr uint64_t kMark = 0x7474'6d65'6d6e'6577, kGone = 0x7474'6d65'6d67'6f6e;

struct alignas(16) Mark {
    uint64_t mark;
    void* block;  // the block of malloc
};

void* make(std::size_t size, std::size_t alignment) noexcept {
    std::size_t unit = alignment < sizeof(Mark) ? sizeof(Mark) : alignment;
    void* block = std::malloc(size + 2 * unit);
    if (block == nullptr) {
        return nullptr;
    }
    uintptr_t start = (reinterpret_cast<uintptr_t>(block) + sizeof(Mark) + unit - 1) / unit * unit;
    reinterpret_cast<Mark*>(start)[-1] = {kMark, block};
    return reinterpret_cast<void*>(start);
}

void* make_or_throw(std::size_t size, std::size_t alignment) {
    void* made = make(size, alignment);
    if (made == nullptr) {
        throw std::bad_alloc();
    }
    return made;
}

void release(void* object) noexcept {
    if (object == nullptr) {
        return;
    }
    Mark& mark = static_cast<Mark*>(object)[-1];
    if (mark.mark != kMark) {
        std::fputs(mark.mark == kGone ? "operator delete: deleted twice\n" : "operator delete: not made by new\n",
                   stderr);
        std::abort();
    }
    mark.mark = kGone;
    std::free(mark.block);
}

}  // namespace

void* operator new(std::size_t size) { return make_or_throw(size, 1); }
void* operator new[](std::size_t size) { return make_or_throw(size, 1); }
void* operator new(std::size_t size, std::align_val_t unit) {
    return make_or_throw(size, static_cast<std::size_t>(unit));
}
void* operator new[](std::size_t size, std::align_val_t unit) {
    return make_or_throw(size, static_cast<std::size_t>(unit));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return make(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return make(size, 1); }
void operator delete(void* object) noexcept { release(object); }
void operator delete[](void* object) noexcept { release(object); }
void operator delete(void* object, std::size_t) noexcept { release(object); }
void operator delete[](void* object, std::size_t) noexcept { release(object); }
void operator delete(void* object, std::align_val_t) noexcept { release(object); }
void operator delete[](void* object, std::align_val_t) noexcept { release(object); }
void operator delete(void* object, std::size_t, std::align_val_t) noexcept { release(object); }
void operator delete[](void* object, std::size_t, std::align_val_t) noexcept { release(object); }
void operator delete(void* object, const std::nothrow_t&) noexcept { release(object); }
void operator delete[](void* object, const std::nothrow_t&) noexcept { release(object); }
