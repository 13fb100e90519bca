// SPDX-License-Identifier: Apache-2.0
//
// The upper limit: a server that reads and discards, to measure the throughput of the socket itself.
//
//   g++ -O2 -std=c++17 -pthread -o sink sink.cpp
//   sink SOCKET
//
// A thread for each client, reads of up to 256 KiB. It examines one byte per read: the type of the last whole record,
// because the load ends with a QUERY and waits for the reply.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr size_t RECORD_BYTES = 144;
constexpr size_t READ_BYTES = 1 << 18;
constexpr char QUERY = 3;
constexpr char RESPONSE = 4;

void serve_client(int connection) {
    std::vector<char> buffer(READ_BYTES);
    size_t total = 0;
    char cut_record_type = 0;  // of a record that began in an earlier read: READ_BYTES is no multiple of RECORD_BYTES
    while (true) {
        const ssize_t result = recv(connection, buffer.data(), buffer.size(), 0);
        if (result <= 0) break;
        const size_t received = static_cast<size_t>(result);
        total += received;
        const size_t tail = total % RECORD_BYTES;
        if (tail != 0) {
            if (tail <= received) cut_record_type = buffer[received - tail];
            continue;
        }
        const char last_type = received >= RECORD_BYTES ? buffer[received - RECORD_BYTES] : cut_record_type;
        if (last_type == QUERY) {
            const char reply[RECORD_BYTES] = {RESPONSE};
            send(connection, reply, sizeof reply, 0);
        }
    }
    close(connection);
}

int listen_at(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path) {
        std::fprintf(stderr, "sink: the path is too long for a socket: %s\n", path);
        std::exit(2);
    }
    std::strcpy(address.sun_path, path);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(path);
    if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener, 128) != 0) {
        std::perror("sink: bind");
        std::exit(1);
    }
    return listener;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: sink SOCKET\n");
        return 2;
    }
    const int listener = listen_at(argv[1]);
    while (true) {
        const int connection = accept(listener, nullptr, nullptr);
        std::thread(serve_client, connection).detach();
    }
}
