// SPDX-License-Identifier: Apache-2.0
//
// The load: clients that send legacy records as fast as the server accepts them, one blocking send() per record, as
// the proof of concept's client does.
//
//   g++ -O2 -std=c++17 -pthread -o load load.cpp
//   load SOCKET CLIENTS RECORDS_PER_CLIENT
//
// Each client is a thread with its own connection. It allocates a buffer and frees it at once, over and over,
// then asks for the device's totals and waits for the reply. A server answers in order, so the time includes the
// processing of every record, not just its transport.
//
// Prints one line: clients=4 records=2000000 seconds=2.500 rate=800000
// `records` is the sum over the clients, without the queries; `rate` is records per second.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr uint8_t ALLOC = 1;
constexpr uint8_t FREE = 2;
constexpr uint8_t QUERY = 3;
constexpr uint8_t RESPONSE = 4;

constexpr uint8_t DRAM = 0;
constexpr uint8_t L1 = 1;

constexpr int DEVICES = 8;

// The 144-byte legacy record. A request leaves everything after the timestamp zero.
struct __attribute__((packed)) Record {
    uint8_t type;
    uint8_t pad1[3];
    int32_t device_id;
    uint64_t size;
    uint8_t buffer_type;
    uint8_t pad2[3];
    int32_t process_id;
    uint64_t buffer_id;
    uint64_t timestamp;
    uint8_t reply_fields[104];
};
static_assert(sizeof(Record) == 144, "the newest legacy record has 144 bytes");

[[noreturn]] void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}

int connect_to(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path) {
        std::fprintf(stderr, "load: the path is too long for a socket: %s\n", path);
        std::exit(2);
    }
    std::strcpy(address.sun_path, path);
    const int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("load: connect");
    const int send_buffer = 1 << 20;
    setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
    return connection;
}

void send_record(int connection, const Record& record) {
    if (send(connection, &record, sizeof record, 0) != static_cast<ssize_t>(sizeof record)) fail("load: send");
}

void run_client(const char* path, int client, long pairs) {
    const int connection = connect_to(path);
    Record record;
    std::memset(&record, 0, sizeof record);
    record.process_id = getpid();
    record.device_id = client % DEVICES;
    for (long i = 0; i < pairs; ++i) {
        record.type = ALLOC;
        record.size = 2048 + (i % 1000) * 32;
        record.buffer_type = i % 5 == 0 ? L1 : DRAM;
        // 20,000 addresses a page apart, in a range of the client's own.
        record.buffer_id = 0x100000 + (i % 20000) * 4096 + (static_cast<uint64_t>(client) << 40);
        send_record(connection, record);
        record.type = FREE;
        send_record(connection, record);
    }
    record.type = QUERY;
    send_record(connection, record);
    Record reply;
    const ssize_t received = recv(connection, &reply, sizeof reply, MSG_WAITALL);
    if (received != static_cast<ssize_t>(sizeof reply) || reply.type != RESPONSE) {
        std::fprintf(stderr, "load: the server did not answer the query with a RESPONSE of 144 bytes\n");
        std::exit(1);
    }
    close(connection);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: load SOCKET CLIENTS RECORDS_PER_CLIENT\n");
        return 2;
    }
    const char* path = argv[1];
    const int clients = std::atoi(argv[2]);
    const long pairs = std::atol(argv[3]) / 2;
    if (clients < 1 || pairs < 1) {
        std::fprintf(stderr, "load: CLIENTS must be at least 1 and RECORDS_PER_CLIENT at least 2\n");
        return 2;
    }

    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client) threads.emplace_back(run_client, path, client, pairs);
    for (std::thread& thread : threads) thread.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    const long records = clients * pairs * 2;
    std::printf("clients=%d records=%ld seconds=%.3f rate=%.0f\n", clients, records, seconds, records / seconds);
    return 0;
}
