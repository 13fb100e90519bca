// SPDX-License-Identifier: Apache-2.0
//
// The reference: the hot path of the proof of concept's C++ server, with its costs and without its other features.
//
//   g++ -O2 -std=c++17 -pthread -o reference_server reference_server.cpp
//   reference_server SOCKET > log
//
// A thread for each client, one recv() for each 144-byte record, one mutex around one hash map, one log line for each
// event, written before the next record is read. The target of the log matters as much as the rest: compare /dev/null
// and a file.
//
// It measures the cost of that design. Do not improve it: a faster reference would change the meaning of the ratios in
// the documentation. It is not robust: like the original, it does not check device_id and buffer_type.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace {

constexpr uint8_t ALLOC = 1;
constexpr uint8_t FREE = 2;
constexpr uint8_t QUERY = 3;
constexpr uint8_t RESPONSE = 4;

constexpr size_t DEVICES = 8;
constexpr size_t BUFFER_TYPES = 5;
constexpr uint8_t DRAM = 0;
constexpr uint8_t L1 = 1;
const char* const buffer_type_names[BUFFER_TYPES] = {"DRAM", "L1", "SYSTEM_MEMORY", "L1_SMALL", "TRACE"};

// The 144-byte legacy record, as far as this program uses it.
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
    uint64_t dram_allocated;
    uint64_t l1_allocated;
    uint8_t other_reply_fields[88];
};
static_assert(sizeof(Record) == 144, "the newest legacy record has 144 bytes");

struct BufferKey {
    int device_id;
    uint64_t buffer_id;

    bool operator==(const BufferKey& other) const {
        return device_id == other.device_id && buffer_id == other.buffer_id;
    }
};

struct BufferKeyHash {
    size_t operator()(const BufferKey& key) const {
        return std::hash<int>()(key.device_id) ^ (std::hash<uint64_t>()(key.buffer_id) << 1);
    }
};

struct Buffer {
    uint64_t buffer_id;
    int device_id;
    uint64_t size;
    uint8_t buffer_type;
    pid_t owner_pid;
    std::chrono::steady_clock::time_point allocated_at;
    int ref_count;
};

struct DeviceTotals {
    std::atomic<uint64_t> bytes[BUFFER_TYPES]{};
    std::atomic<uint64_t> buffers{0};
};

std::mutex buffers_mutex;
std::unordered_map<BufferKey, Buffer, BufferKeyHash> buffers;
std::array<DeviceTotals, DEVICES> totals;

void handle_alloc(const Record& record) {
    const std::lock_guard<std::mutex> lock(buffers_mutex);
    const BufferKey key{record.device_id, record.buffer_id};
    const auto known = buffers.find(key);
    if (known != buffers.end()) {
        known->second.ref_count++;
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    buffers[key] =
        Buffer{record.buffer_id, record.device_id, record.size, record.buffer_type, record.process_id, now, 1};
    totals[record.device_id].bytes[record.buffer_type] += record.size;
    totals[record.device_id].buffers++;
    std::cout << "✓ [PID " << record.process_id << "] Allocated " << record.size << " bytes of "
              << buffer_type_names[record.buffer_type] << " on device " << record.device_id << " (buffer_id=0x"
              << std::hex << record.buffer_id << std::dec << ")" << std::endl;
}

void handle_free(const Record& record) {
    const std::lock_guard<std::mutex> lock(buffers_mutex);
    const auto known = buffers.find(BufferKey{record.device_id, record.buffer_id});
    if (known == buffers.end()) return;
    Buffer& buffer = known->second;
    if (--buffer.ref_count > 0) return;
    totals[buffer.device_id].bytes[buffer.buffer_type] -= buffer.size;
    totals[buffer.device_id].buffers--;
    std::cout << "✗ [PID " << buffer.owner_pid << "] Freed buffer 0x" << std::hex << record.buffer_id << std::dec
              << " on device " << buffer.device_id << " (" << buffer.size << " bytes, FINAL)" << std::endl;
    buffers.erase(known);
}

void handle_query(int connection, const Record& record) {
    Record reply;
    std::memset(&reply, 0, sizeof reply);
    reply.type = RESPONSE;
    reply.device_id = record.device_id;
    reply.dram_allocated = totals[record.device_id].bytes[DRAM];
    reply.l1_allocated = totals[record.device_id].bytes[L1];
    send(connection, &reply, sizeof reply, 0);
}

void serve_client(int connection) {
    Record record;
    while (recv(connection, &record, sizeof record, MSG_WAITALL) > 0) {
        switch (record.type) {
            case ALLOC: handle_alloc(record); break;
            case FREE: handle_free(record); break;
            case QUERY: handle_query(connection, record); break;
        }
    }
    close(connection);
}

int listen_at(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path) {
        std::fprintf(stderr, "reference_server: the path is too long for a socket: %s\n", path);
        std::exit(2);
    }
    std::strcpy(address.sun_path, path);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(path);
    if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener, 128) != 0) {
        std::perror("reference_server: bind");
        std::exit(1);
    }
    return listener;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: reference_server SOCKET > log\n");
        return 2;
    }
    // Part of the cost: std::cout goes through stdout, and with that unbuffered each << of a log line is a write() of
    // its own.
    std::setbuf(stdout, nullptr);
    const int listener = listen_at(argv[1]);
    while (true) {
        const int connection = accept(listener, nullptr, nullptr);
        std::thread(serve_client, connection).detach();
    }
}
