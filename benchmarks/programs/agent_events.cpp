// SPDX-License-Identifier: Apache-2.0
// The cost of the agent per event; run with the agent preloaded, on tiny_metal. Reads one command per line:
//   cost N     N events each of: an empty call, hooks paused, hooks on, and one send() of a 64-byte record; prints ns
//   threads T N   N events in each of T threads at once; prints ns per event
//   fill N     writes N records for a reader, then prints a line
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

extern "C" void tiny_calls(uint64_t count);
extern "C" void tiny_pairs(uint64_t count, uint64_t live);
extern "C" void ttmem_agent_pause(int pause) __attribute__((weak));

template <typename Work>
double nanoseconds(uint64_t events, Work work) {
    auto start = std::chrono::steady_clock::now();
    work();
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    return spent.count() / static_cast<double>(events);
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
