// SPDX-License-Identifier: Apache-2.0
// Writes through ttmem::Store for tests that read with ttmem.wire.agent_ring, and hands its memory over on descriptor
// FD.
//
//   ring_writer random FD SEED COUNT   COUNT random records, each printed field by field as it went into the ring
//   ring_writer threads FD THREADS     threads that write until standard input ends
//   ring_writer meters FD              commands from standard input, one a line; "done" is printed after each:
//                                        mesh INDEX CHIP...   put SLOT KIND SIZE [MESH]   free SLOT   skip RECORDS
//                                        reset   begin PHASE   end PHASE
//   ring_writer pack                   lines of field values from standard input, as the bytes of a record, in hex
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "phases.h"
#include "store.h"

using ttmem::Event;
using ttmem::Kind;
using ttmem::Locked;
using ttmem::Record;
using ttmem::Store;

namespace {

void hand_over(int socket, int memory) {
    char word = 'm';
    iovec bytes{&word, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &memory, sizeof(int));
    CHECK(sendmsg(socket, &message, 0) == 1);
}

void print(const char* what, const Record& r) {
    std::printf("%s sequence=%" PRIu64 " time=%" PRIu64 " event=%u kind=%u layout=%u flags=%u thread=%u", what,
                r.sequence, r.time, static_cast<unsigned>(r.event), static_cast<unsigned>(r.kind), r.layout, r.flags,
                r.thread);
    std::printf(" address=%" PRIu64 " size=%" PRIu64
                " per_bank=%u slot=%u mesh=%u core_count=%u cores=%u program=%u"
                " name=%u\n",
                r.address, r.size, r.per_bank, r.slot, r.mesh, r.core_count, r.cores, r.program, r.name);
}

void fill(Record& r, std::mt19937_64& random) {
    r.kind = static_cast<Kind>(random() % 12);
    r.layout = static_cast<uint8_t>(random());
    r.flags = static_cast<uint8_t>(random());
    r.address = random();
    r.size = random();
    r.per_bank = static_cast<uint32_t>(random());
    r.mesh = static_cast<uint16_t>(random());
    r.core_count = static_cast<uint16_t>(random());
    r.cores = static_cast<uint32_t>(random());
    r.program = static_cast<uint32_t>(random());
    r.name = static_cast<uint32_t>(random());
}

void write_random(int socket, uint64_t seed, uint64_t count) {
    Store store;
    CHECK(store.create(static_cast<uint32_t>(getpid())));
    hand_over(socket, store.fd());
    std::mt19937_64 random(seed);
    std::vector<uint32_t> slots;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t what = random() % 4;
        if (what == 0) {
            store.append(static_cast<Event>(1 + random() % 3), [&](Record& r) { fill(r, random); });
        } else if (what < 3 || slots.empty()) {
            slots.push_back(store.allocate([&](Record& r) { fill(r, random); }));
        } else {
            std::swap(slots[random() % slots.size()], slots.back());
            store.free(slots.back(), static_cast<uint8_t>(random()));
            slots.pop_back();
        }
        print("ring", store.ring()[store.header()->head % ttmem::kRingSlots]);
    }
    std::sort(slots.begin(), slots.end());
    for (uint32_t slot : slots) {
        print("live", store.table()[slot]);
    }
    for (int i = 0; i < 300; i++) {
        std::string text(random() % 100, static_cast<char>('a' + i % 26));
        std::printf("blob %u %s\n", store.text(text.c_str()), text.c_str());
    }
}

// Things of many programs, so that one record takes many of them away, and frames that are marked as run.
void keep_writing(Store& store, uint32_t number, const std::atomic<bool>& stop) {
    std::mt19937_64 random(number);
    struct Program {
        uint32_t number, frame;
        std::vector<uint32_t> parts;
    };
    std::vector<uint32_t> slots;
    std::vector<Program> programs;
    uint32_t last = 0;
    for (uint64_t turn = 0; !stop.load(); turn++) {
        {
            Locked held(store.lock);
            uint64_t what = random() % 16;
            if (what == 0 && programs.size() < 20) {
                Program program{number << 24 | ++last, store.take_slot(), {}};
                const Record& frame = store.append(Event::kProgram, [&](Record& r) {
                    r.kind = Kind::kProgramFrame;
                    r.slot = program.frame;
                    r.program = program.number;
                });
                store.keep(program.frame, frame);
                for (int i = 0; i < 5; i++) {
                    program.parts.push_back(store.allocate([&](Record& r) {
                        fill(r, random);
                        r.program = program.number;
                    }));
                }
                programs.push_back(program);
            } else if (what == 1 && !programs.empty()) {
                Program program = programs[random() % programs.size()];
                const Record& record = store.append(Event::kRun, [&](Record& r) {
                    r.slot = program.frame;
                    r.program = program.number;
                });
                store.table()[program.frame].flags |= ttmem::kRan;
                store.table()[program.frame].time = record.time;
            } else if (what == 2 && !programs.empty()) {
                std::swap(programs[random() % programs.size()], programs.back());
                store.append(Event::kDestroyed, [&](Record& r) {
                    r.slot = programs.back().frame;
                    r.program = programs.back().number;
                });
                for (uint32_t slot : programs.back().parts) {
                    store.forget(slot);
                }
                store.forget(programs.back().frame);
                programs.pop_back();
            } else if (slots.size() < 200 && random() % 2 == 0) {
                slots.push_back(store.allocate([&](Record& r) {
                    fill(r, random);
                    r.program = 0;
                }));
            } else if (!slots.empty()) {
                std::swap(slots[random() % slots.size()], slots.back());
                store.free(slots.back(), 0);
                slots.pop_back();
            }
        }
        if (turn % 2 == 0) {
            // A Python reader can follow that, also one that a busy machine does not let run for some seconds.
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
}

void write_from_threads(int socket, uint32_t count) {
    Store store;
    CHECK(store.create(static_cast<uint32_t>(getpid())));
    hand_over(socket, store.fd());
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i <= count; i++) {
        threads.emplace_back([&, i] { keep_writing(store, i, stop); });
    }
    char ignored;
    while (read(0, &ignored, 1) > 0) {
    }
    stop.store(true);
    for (std::thread& thread : threads) {
        thread.join();
    }
}

void change_meters(int socket) {
    Store store;
    CHECK(store.create(static_cast<uint32_t>(getpid())));
    for (uint32_t chip = 0; chip < 4; chip++) {
        store.chips()[chip].number = chip;
    }
    store.header()->chips_used = 4;
    hand_over(socket, store.fd());
    std::map<int, uint32_t> slots;
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string what;
        words >> what;
        if (what == "mesh") {
            uint16_t index, chip;
            std::vector<uint16_t> chips;
            for (words >> index; words >> chip;) {
                chips.push_back(chip);
            }
            store.metering.set_mesh(index, ttmem::Mesh{}, chips);
        } else if (what == "put") {
            int name;
            std::string kind;
            uint64_t size;
            uint16_t mesh = 0;
            words >> name >> kind >> size;
            words >> mesh;
            slots[name] = store.allocate([&](Record& r) {
                r.kind = kind == "dram" ? Kind::kDram : Kind::kL1;
                r.size = size;
                r.mesh = mesh;
            });
        } else if (what == "free") {
            int name;
            words >> name;
            store.free(slots.at(name), 0);
        } else if (what == "skip") {
            uint64_t count;
            for (words >> count; count > 0; count--) {
                store.append(Event::kCacheCleared, [](Record&) {});
            }
        } else if (what == "reset") {
            store.metering.reset_peaks();
        } else {
            ttmem::Phase phase{};
            words >> phase.ident;
            what == "begin" ? write_began(store, phase) : write_ended(store, phase.ident);
        }
        std::printf("done\n");
        std::fflush(stdout);
    }
}

void pack() {
    uint64_t v[16];
    for (;;) {
        for (uint64_t& value : v) {
            if (std::scanf("%" SCNu64, &value) != 1) {
                return;
            }
        }
        Record r;
        r.sequence = v[0];
        r.time = v[1];
        r.event = static_cast<Event>(v[2]);
        r.kind = static_cast<Kind>(v[3]);
        r.layout = static_cast<uint8_t>(v[4]);
        r.flags = static_cast<uint8_t>(v[5]);
        r.thread = static_cast<uint32_t>(v[6]);
        r.address = v[7];
        r.size = v[8];
        r.per_bank = static_cast<uint32_t>(v[9]);
        r.slot = static_cast<uint32_t>(v[10]);
        r.mesh = static_cast<uint16_t>(v[11]);
        r.core_count = static_cast<uint16_t>(v[12]);
        r.cores = static_cast<uint32_t>(v[13]);
        r.program = static_cast<uint32_t>(v[14]);
        r.name = static_cast<uint32_t>(v[15]);
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(&r);
        for (size_t i = 0; i < sizeof(r); i++) {
            std::printf("%02x", bytes[i]);
        }
        std::printf("\n");
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "random" && argc == 5) {
        write_random(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10));
    } else if (mode == "threads" && argc == 4) {
        write_from_threads(std::atoi(argv[2]), static_cast<uint32_t>(std::atoi(argv[3])));
    } else if (mode == "meters" && argc == 3) {
        change_meters(std::atoi(argv[2]));
    } else if (mode == "pack") {
        pack();
    } else {
        std::fprintf(stderr, "usage: ring_writer random FD SEED COUNT | threads FD THREADS | meters FD | pack\n");
        return 2;
    }
}
