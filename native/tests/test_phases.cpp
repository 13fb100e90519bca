// SPDX-License-Identifier: Apache-2.0
// ttmem::Phases: the initial phases of an agent that starts late, and a lock that a forked child can take.
#include "phases.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

using ttmem::Event;
using ttmem::Phase;
using ttmem::Phases;
using ttmem::ProcessLock;
using ttmem::Record;
using ttmem::Store;

namespace {

struct Made : Store {
    Made() { CHECK(create(static_cast<uint32_t>(getpid()))); }
    ~Made() { destroy(); }
    const Record& record(uint64_t sequence) const { return ring()[sequence]; }
    std::string name(const Record& record) const {
        const char* at = reinterpret_cast<const char*>(header()) + header()->blobs_at + record.name;
        uint32_t length;
        std::memcpy(&length, at, 4);
        return record.name == 0 ? "" : std::string(at + 4, length);
    }
};

Phase phase(uint64_t ident, uint64_t parent, const char* name) {
    Phase made{ident, parent, {}};
    std::snprintf(made.name, sizeof(made.name), "%s", name);
    return made;
}

void records() {
    Made store;
    write_began(store, phase(7, 3, "prefill"));
    write_ended(store, 7);
    CHECK(store.header()->head == 2 && store.header()->table_high == 0);
    const Record &began = store.record(1), &ended = store.record(2);
    CHECK(began.event == Event::kPhaseBegan && began.address == 7 && began.size == 3 && store.name(began) == "prefill");
    CHECK(ended.event == Event::kPhaseEnded && ended.address == 7 && ended.slot == ttmem::kNoSlot);
}

void those_still_open_are_told_in_order() {
    static Phases phases;
    for (uint64_t ident = 1; ident <= 5; ident++) {
        phases.began(phase(ident, ident - 1, std::to_string(ident).c_str()));
    }
    phases.ended(2);
    phases.ended(5);
    phases.ended(77);  // begun before the agent started
    Made store;
    phases.write_all(store);
    CHECK(store.header()->head == 3);
    const uint64_t open[] = {1, 3, 4};
    for (uint64_t i = 0; i < 3; i++) {
        const Record& record = store.record(i + 1);
        CHECK(record.event == Event::kPhaseBegan && record.address == open[i] && record.size == open[i] - 1);
        CHECK(store.name(record) == std::to_string(open[i]));
    }
}

void too_many_are_left_out() {
    static Phases phases;
    for (uint64_t ident = 1; ident <= 100; ident++) {
        phases.began(phase(ident, 0, "x"));
    }
    Made store;
    phases.write_all(store);
    CHECK(store.header()->head == 64 && store.record(64).address == 64);
}

// With any number of phase names, core sets and operations still have room.
void names_leave_room() {
    Made store;
    for (uint64_t i = 0; i < 100000; i++) {
        std::string name = std::to_string(i) + std::string(200, 'x');
        write_began(store, phase(1, 0, name.c_str()));
    }
    CHECK(store.header()->blobs_used < ttmem::kBlobBytes / 2 + 300 && store.header()->blobs_full > 0);
    CHECK(store.record(store.header()->head % ttmem::kRingSlots).name == 0);
    CHECK(store.text("ttnn.add") != 0);
}

void a_child_takes_the_lock_of_its_parent() {
    static ProcessLock lock;
    lock.lock();
    pid_t child = fork();
    if (child == 0) {
        alarm(30);  // ends a child that waits for ever
        lock.lock();
        lock.unlock();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    lock.unlock();
}

void one_thread_at_a_time() {
    static ProcessLock lock;
    uint64_t count = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; i++) {
                std::lock_guard<ProcessLock> held(lock);
                count++;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(count == 8000);
}

}  // namespace

int main() {
    records();
    those_still_open_are_told_in_order();
    too_many_are_left_out();
    names_leave_room();
    a_child_takes_the_lock_of_its_parent();
    one_thread_at_a_time();
}
