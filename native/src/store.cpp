// SPDX-License-Identifier: Apache-2.0
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ttmem {

namespace {

constexpr uint32_t kMaxBlob = 4096;
constexpr int kSpareDescriptors = 16;

void relax() noexcept {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Are there descriptors to spare? The last ones are the workload's.
bool leaves_room(int fd) noexcept {
    int spare[kSpareDescriptors];
    int count = 0;
    while (count < kSpareDescriptors && (spare[count] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0) {
        count++;
    }
    for (int i = 0; i < count; i++) {
        close(spare[i]);
    }
    return count == kSpareDescriptors;
}

int make_file(bool& few) noexcept {
    few = false;
    // Past this limit ftruncate does not just fail: it sends SIGXFSZ, which ends the process.
    rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && most.rlim_cur < kTotal) {
        return -1;
    }
    int fd = static_cast<int>(syscall(SYS_memfd_create, "ttmem", 2u /* MFD_ALLOW_SEALING */ | 1u /* MFD_CLOEXEC */));
    if (fd < 0) {
        few = errno == EMFILE || errno == ENFILE;
        return -1;
    }
    if (!leaves_room(fd)) {
        few = true;
        close(fd);
        return -1;
    }
    // Sealed against shrinking: a reader must not be killed by a file that ends before its mapping does.
    if (ftruncate(fd, static_cast<off_t>(kTotal)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

}  // namespace

void SpinLock::wait() noexcept {
    for (uint32_t spins = 0;; spins++) {
        if (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire)) {
            return;
        }
        if (spins < 64) {
            relax();
        } else {
            sched_yield();
        }
    }
}

void Cores::add_range(const uint64_t range[4]) {
    for (uint64_t y = range[1]; y <= range[3] && y < kRows; y++) {
        for (uint64_t x = range[0]; x <= range[2] && x < 64; x++) {
            rows[y] |= 1ull << x;
        }
    }
}

void Cores::merge(const Cores& other) {
    for (uint32_t y = 0; y < kRows; y++) {
        rows[y] |= other.rows[y];
    }
}

uint32_t Cores::count() const {
    uint32_t count = 0;
    for (uint64_t row : rows) {
        count += static_cast<uint32_t>(__builtin_popcountll(row));
    }
    return count;
}

uint32_t Cores::height() const {
    uint32_t height = kRows;
    while (height > 0 && rows[height - 1] == 0) {
        height--;
    }
    return height;
}

ProcessState of_process;
__thread ThreadState of_thread{};

uint32_t Store::ask_thread_id() noexcept {
    of_thread.pid = of_process.pid;
    of_thread.operation_blob = 0;  // after a fork these are of another store
    std::memset(of_thread.recent, 0, sizeof(of_thread.recent));
    of_thread.id = static_cast<uint32_t>(syscall(SYS_gettid));
    return of_thread.id;
}

bool Store::create(uint32_t pid) noexcept {
    of_process.pid = pid;  // changes with a fork: the stored thread ids are then those of the parent
    fd_ = make_file(short_);
    int flags = fd_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* memory = mmap(nullptr, kTotal, PROT_READ | PROT_WRITE, flags, fd_, 0);
    void* slots =
        mmap(nullptr, sizeof(uint32_t) * kTableSlots, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || slots == MAP_FAILED) {
        if (memory != MAP_FAILED) {
            munmap(memory, kTotal);
        }
        if (fd_ >= 0) {
            close(fd_);
            fd_ = -1;
        }
        return false;
    }
    free_slots_ = static_cast<uint32_t*>(slots);
    header_ = static_cast<Header*>(memory);
    // Pages of the ring that are there already save a fault in the middle of an allocation.
    if (madvise(reinterpret_cast<char*>(memory) + kRingAt, sizeof(Record) * kRingSlots, 23 /* POPULATE_WRITE */) != 0) {
        for (uint64_t page = kRingAt; page < kTableAt; page += 4096) {
            static_cast<volatile char*>(memory)[page] = 0;
        }
    }
    header_->version = kVersion;
    header_->pid = pid;
    header_->total = kTotal;
    header_->meshes_at = kMeshesAt;
    header_->meshes = kMeshes;
    header_->chips_at = kChipsAt;
    header_->chips = kChips;
    header_->meters_at = kMetersAt;
    header_->meters = kMeters;
    header_->groups_at = kGroupsAt;
    header_->windows_at = kWindowsAt;
    header_->windows = kWindows;
    header_->phases_at = kPhasesAt;
    header_->phases = kOpenPhases;
    header_->ring_at = kRingAt;
    header_->ring_slots = kRingSlots;
    header_->table_at = kTableAt;
    header_->table_slots = kTableSlots;
    header_->blobs_at = kBlobsAt;
    header_->blobs_size = kBlobBytes;
    header_->blobs_used = 8;  // so that no blob has number 0
    header_->started = monotonic_time();
    clock_.use_counter_if_trusted();
    metering.begin(header_, at<Meter>(kMetersAt), at<Group>(kGroupsAt), at<Window>(kWindowsAt),
                   at<OpenPhase>(kPhasesAt));
    __atomic_store_n(&header_->magic, kMagic, __ATOMIC_RELEASE);
    return true;
}

bool Store::publish() noexcept {
    if (fd_ >= 0) {
        return true;
    }
    int fd = make_file(short_);
    if (fd < 0) {
        return false;
    }
    void* copy = mmap(nullptr, kTotal, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (copy == MAP_FAILED) {
        close(fd);
        return false;
    }
    {
        Locked guard(lock);
        char* to = static_cast<char*>(copy);
        const char* from = reinterpret_cast<const char*>(header_);
        // Only what is used: a page that is copied takes memory.
        const auto copy_part = [&](uint64_t begin, uint64_t size) { std::memcpy(to + begin, from + begin, size); };
        copy_part(0, kMetersAt + sizeof(Meter) * header_->meters_used);
        copy_part(kGroupsAt, sizeof(Group) * header_->meters_used);
        for (uint64_t row = 0; row < kWindows; row++) {
            copy_part(kWindowsAt + row * sizeof(Window), offsetof(Window, highs) + sizeof(High) * header_->meters_used);
        }
        for (uint64_t row = 0; row < kOpenPhases; row++) {
            copy_part(kPhasesAt + row * sizeof(OpenPhase),
                      offsetof(OpenPhase, figures) + sizeof(Reached) * header_->meters_used);
        }
        copy_part(kRingAt, kTableAt - kRingAt + sizeof(Record) * header_->table_high);
        copy_part(kBlobsAt, header_->blobs_used);
        // The file takes the place of the private memory, so every pointer stays good.
        if (mmap(header_, kTotal, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
            munmap(copy, kTotal);
            close(fd);
            return false;
        }
        fd_ = fd;
    }
    munmap(copy, kTotal);
    return true;
}

void Store::destroy() noexcept {
    if (header_ != nullptr) {
        munmap(header_, kTotal);
        munmap(free_slots_, sizeof(uint32_t) * kTableSlots);
    }
    if (fd_ >= 0) {
        close(fd_);
    }
    header_ = nullptr;
    fd_ = -1;
}

void Store::next_window(uint64_t first) noexcept {
    metering.next_window(first);
    window_end_ = first + kWindowRecords;
}

uint32_t Store::take_slot() noexcept {
    if (free_count_ > 0) {
        __atomic_store_n(&free_count_, free_count_ - 1, __ATOMIC_RELAXED);
        return free_slots_[free_count_];
    }
    if (header_->table_high < kTableSlots) {
        return header_->table_high;  // becomes part of the table with keep()
    }
    header_->table_full++;
    return kNoSlot;
}

void Store::keep(uint32_t slot, const Record& record) noexcept {
    if (slot == kNoSlot) {
        return;
    }
    Record& allocation = table()[slot];
    if (allocation.sequence != 0) {
        metering.remove(allocation);
    }
    set_fields(allocation, record);
    enter(slot, record.sequence);
}

void Store::clear(uint32_t slot) noexcept {
    metering.remove(table()[slot]);
    __atomic_store_n(&table()[slot].sequence, 0, __ATOMIC_RELEASE);
}

void Store::forget(uint32_t slot) noexcept {
    clear(slot);
    __atomic_store_n(&free_slots_[free_count_], slot, __ATOMIC_RELAXED);
    __atomic_store_n(&free_count_, free_count_ + 1, __ATOMIC_RELAXED);
}

void Store::free(uint32_t slot, uint8_t flags) noexcept {
    const Record& allocation = table()[slot];
    const uint64_t time = clock_.now();
    const uint32_t thread = thread_id();
    write([&](Record& record) {
        constexpr size_t kFrom = offsetof(Record, time);  // nobody wrote to it lately, so a block is fast here
        std::memcpy(reinterpret_cast<char*>(&record) + kFrom, reinterpret_cast<const char*>(&allocation) + kFrom,
                    sizeof(Record) - kFrom);
        record.time = time;
        record.event = Event::kFreed;
        record.flags = static_cast<uint8_t>(record.flags | flags);
        record.thread = thread;
        record.slot = slot;
    });
    forget(slot);
}

void Store::rename(uint32_t slot, uint64_t sequence, uint32_t name) noexcept {
    Record& allocation = table()[slot];
    if (allocation.sequence != sequence || allocation.name == name || name == 0) {
        return;
    }
    allocation.name = name;
    const Record now_called = allocation;
    append(Event::kNamed, [&](Record& r) {
        r = now_called;
        r.slot = slot;
    });
}

void Store::mark(uint32_t slot, uint64_t sequence, uint8_t flag) noexcept {
    Record& allocation = table()[slot];
    if (allocation.sequence != sequence) {
        return;
    }
    allocation.flags = static_cast<uint8_t>(allocation.flags | flag);
    const Record now_marked = allocation;
    append(Event::kNamed, [&](Record& r) {
        r = now_marked;
        r.slot = slot;
    });
}

void Store::complain(const char* sentence) noexcept {
    char* trouble = header_->trouble;
    size_t used = std::strlen(trouble), length = std::strlen(sentence);
    if (std::strstr(trouble, sentence) == nullptr && used + length + 2 <= sizeof(header_->trouble)) {
        std::memcpy(trouble + used + (used > 0), sentence, length + 1);
        if (used > 0) {
            trouble[used] = '\n';
        }
    }
}

uint32_t Store::blob(const void* bytes, uint32_t size) noexcept {
    if (size == 0) {
        return 0;
    }
    size = size < kMaxBlob ? size : kMaxBlob;
    uint64_t hash = 0xcbf29ce484222325ull ^ size;
    for (uint32_t i = 0; i < size; i++) {
        hash = (hash ^ static_cast<const uint8_t*>(bytes)[i]) * 0x100000001b3ull;
    }
    char* blobs = at<char>(kBlobsAt);
    for (;; hash++) {  // another blob may have the same hash
        const uint32_t* known = blobs_.find(hash);
        if (known == nullptr) {
            break;
        }
        uint32_t length;
        std::memcpy(&length, blobs + *known, 4);
        if (length == size && std::memcmp(blobs + *known + 4, bytes, size) == 0) {
            return *known;
        }
    }
    uint32_t offset = header_->blobs_used;
    uint32_t end = (offset + 4 + size + 7) & ~7u;
    if (end > kBlobBytes || !blobs_.insert(hash, offset)) {
        header_->blobs_full++;
        return 0;
    }
    std::memcpy(blobs + offset, &size, 4);
    std::memcpy(blobs + offset + 4, bytes, size);
    header_->blobs_used = end;
    return offset;
}

}  // namespace ttmem
