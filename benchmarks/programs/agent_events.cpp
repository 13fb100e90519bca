// SPDX-License-Identifier: Apache-2.0
// What the agent costs per event: run with it preloaded, beside tiny_metal. Reads one command a line:
//   cost N     N events each of: an empty call, hooks paused, hooks on, and one send() of a 64-byte record; prints ns
//   cold N     N events each with hooks paused and on, the caches emptied before each event; prints the median ns
//   threads T N   N events in each of T threads at once; prints ns an event
//   fill N     writes N records for a reader, then says so
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

extern "C" void tiny_calls(uint64_t count);
extern "C" void tiny_pairs(uint64_t count, uint64_t live);
extern "C" void tiny_one(uint64_t number, bool allocate);
extern "C" void ttmem_agent_pause(int pause) __attribute__((weak));

constexpr size_t kEvicted = 8 << 20;  // bytes

template <typename Work>
double nanoseconds(uint64_t events, Work work) {
    auto start = std::chrono::steady_clock::now();
    work();
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    return spent.count() / static_cast<double>(events);
}

// Reads and writes more than the caches of a core hold, as an operation of ttnn does between two allocations.
void empty_caches() {
    static std::vector<uint64_t> other(kEvicted / sizeof(uint64_t));
    for (size_t i = 0; i < other.size(); i += 8) {
        other[i]++;
    }
}

double median(std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

// Events one by one, each after the caches were emptied; what reading the clock takes is in both figures.
void cold(uint64_t count, double& paused, double& on) {
    std::vector<double> times[2];
    for (uint64_t i = 0; i < count; i++) {
        for (int hooks = 0; hooks < 2; hooks++) {
            ttmem_agent_pause(hooks == 0);
            for (bool allocate : {true, false}) {
                empty_caches();
                times[hooks].push_back(nanoseconds(1, [&] { tiny_one(i, allocate); }));
            }
        }
    }
    paused = median(times[0]);
    on = median(times[1]);
}

int main() {
    if (ttmem_agent_pause == nullptr) {
        std::fprintf(stderr, "the agent is not preloaded\n");
        return 1;
    }
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    std::thread([fd = ends[1]] {
        static char sink[1 << 18];
        while (read(fd, sink, sizeof(sink)) > 0) {
        }
    }).detach();
    char word[16];
    while (std::scanf("%15s", word) == 1) {
        unsigned long count = 0, threads = 0;
        if (std::strcmp(word, "cost") == 0 && std::scanf("%lu", &count) == 1) {
            double empty = nanoseconds(count, [&] { tiny_calls(count); });
            ttmem_agent_pause(1);
            double off = nanoseconds(count, [&] { tiny_pairs(count / 2, 100); });
            ttmem_agent_pause(0);
            double on = nanoseconds(count, [&] { tiny_pairs(count / 2, 100); });
            uint64_t sends = count / 50;
            double sent = nanoseconds(sends, [&] {
                char record[64] = {};
                for (uint64_t i = 0; i < sends; i++) {
                    send(ends[0], record, sizeof(record), MSG_NOSIGNAL);
                }
            });
            std::printf("%.2f %.2f %.2f %.2f\n", empty, off, on, sent);
        } else if (std::strcmp(word, "cold") == 0 && std::scanf("%lu", &count) == 1) {
            double paused, on;
            cold(count / 2, paused, on);
            std::printf("%.2f %.2f\n", paused, on);
        } else if (std::strcmp(word, "threads") == 0 && std::scanf("%lu %lu", &threads, &count) == 2) {
            double each = nanoseconds(count * threads, [&] {
                std::vector<std::thread> crowd;
                for (unsigned long i = 0; i < threads; i++) {
                    crowd.emplace_back([&] { tiny_pairs(count / 2, 1); });
                }
                for (std::thread& one : crowd) {
                    one.join();
                }
            });
            std::printf("%.2f\n", each);
        } else if (std::strcmp(word, "fill") == 0 && std::scanf("%lu", &count) == 1) {
            tiny_pairs(count / 2, 100);
            std::printf("filled\n");
        } else {
            return 2;
        }
        std::fflush(stdout);
    }
    return 0;
}
