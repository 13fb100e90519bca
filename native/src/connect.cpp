// SPDX-License-Identifier: Apache-2.0
#include "connect.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ttmem {

namespace {

constexpr int kRetryMs = 500;
constexpr int kMostPaths = 4;
constexpr size_t kPathSize = sizeof(sockaddr_un::sun_path);

// Somebody to report to: the first of its paths where one listens that we trust.
struct Reader {
    char paths[kMostPaths][kPathSize];
    int path_count;
    int socket;
    uint64_t inode;  // of the socket: a workload that closes descriptors it does not know may get its number
};

constexpr int kMostReaders = 4;

struct Link {
    Store* store;
    Reader readers[kMostReaders];  // the server, then `ttmem run`
    uint64_t memory_inode;
};

uint64_t inode_of(int fd) {
    struct stat info;
    return fd >= 0 && fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// Forgets a connection; its descriptor is closed only if it still is ours.
void drop(Reader& reader) {
    if (reader.socket >= 0 && inode_of(reader.socket) == reader.inode) {
        close(reader.socket);
    }
    reader.socket = -1;
}

void add_path(Reader& reader, const char* format, const char* a, unsigned number) {
    if (reader.path_count < kMostPaths) {
        int written = std::snprintf(reader.paths[reader.path_count], kPathSize, format, a, number);
        reader.path_count += written > 0 && static_cast<size_t>(written) < kPathSize;
    }
}

// The same places, in the same order, as ttmem.wire.endpoint.search_paths.
void find_paths(Link& link) {
    Reader& server = link.readers[0];
    const char* chosen = getenv("TTMEM_SOCKET");
    const char* runtime = getenv("XDG_RUNTIME_DIR");
    if (chosen != nullptr && chosen[0] != 0) {
        add_path(server, "%s", chosen, 0);
    } else {
        add_path(server, "%s", "/run/ttmem/ttmem.sock", 0);
        if (runtime != nullptr && runtime[0] != 0) {
            add_path(server, "%s/ttmem/ttmem.sock", runtime, 0);
        }
        add_path(server, "%s/ttmem-%u/ttmem.sock", "/tmp", static_cast<unsigned>(getuid()));
    }
    const char* runner = getenv("TTMEM_RUN_SOCKET");
    for (int i = 1; i < kMostReaders && runner != nullptr && runner[0] != 0; i++) {  // one `ttmem run` inside another
        size_t length = std::strcspn(runner, ":");
        if (length < kPathSize) {
            char path[kPathSize] = {};
            std::memcpy(path, runner, length);
            add_path(link.readers[i], "%s", path, 0);
        }
        runner += length + (runner[length] == ':' ? 1 : 0);
    }
}

// Root's, our own, or a service user's in a folder that root gave it.
bool trusted(int fd, const char* path) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return false;
    }
    if (peer.uid == 0 || peer.uid == getuid()) {
        return true;
    }
    char folder[kPathSize];
    std::snprintf(folder, sizeof(folder), "%s", path);
    for (int level = 0; level < 2; level++) {
        char* slash = std::strrchr(folder, '/');
        if (slash == nullptr) {
            return false;
        }
        slash[slash == folder ? 1 : 0] = 0;
        struct stat info;
        if (stat(folder, &info) != 0) {
            return false;
        }
        if (level == 0 ? info.st_uid != peer.uid : info.st_uid != 0 || (info.st_mode & 022) != 0) {
            return false;
        }
    }
    return true;
}

// The hello of docs/protocol.md: first byte, 'T', length, version; then the length of the text, confidence, name.
bool introduce(int fd, int memory) {
    constexpr char kName[] = "agent";
    constexpr uint16_t kBody = 1 + sizeof(kName) - 1, kLength = (8 + 2 + kBody + 7) & ~7;
    unsigned char hello[kLength] = {0xf7, 'T', kLength, 0, 1, 0, 0, 0, kBody, 0, 3 /* exact */};
    std::memcpy(hello + 11, kName, sizeof(kName) - 1);
    iovec bytes{hello, sizeof(hello)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (memory >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        cmsghdr* part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(part), &memory, sizeof(int));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof(hello));
}

void connect_to(Reader& reader, int memory) {
    for (int i = 0; i < reader.path_count && reader.socket < 0; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            return;
        }
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, reader.paths[i], kPathSize);
        if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 && trusted(fd, reader.paths[i]) &&
            introduce(fd, memory)) {
            reader.socket = fd;
            reader.inode = inode_of(fd);
        } else {
            close(fd);
        }
    }
}

// True if every reader is connected.
bool connect_all(Link& link) {
    bool hidden = link.store->fd() < 0;
    bool done = link.store->publish();
    if (hidden && done) {  // readers that connected without the memory connect again, and get it
        link.memory_inode = inode_of(link.store->fd());
        for (Reader& reader : link.readers) {
            drop(reader);
        }
    }
    if (!done && link.store->short_of_descriptors()) {  // the workload needs them more
        return false;
    }
    bool ours = link.memory_inode != 0 && inode_of(link.store->fd()) == link.memory_inode;
    for (Reader& reader : link.readers) {
        if (reader.socket < 0 && reader.path_count > 0) {
            connect_to(reader, ours ? link.store->fd() : -1);
            done = done && reader.socket >= 0;
        }
    }
    return done;
}

void* keep_up(void* data) {
    Link& link = *static_cast<Link*>(data);
    prctl(PR_SET_NAME, "ttmem");
    for (;;) {
        bool done = connect_all(link);
        pollfd waiting[kMostReaders];
        int count = 0;
        for (Reader& reader : link.readers) {
            if (reader.socket >= 0) {
                waiting[count++] = {reader.socket, POLLIN, 0};
            }
        }
        if (poll(waiting, static_cast<nfds_t>(count), done ? -1 : kRetryMs) <= 0) {
            continue;
        }
        for (Reader& reader : link.readers) {
            char ignored[256];  // a reader says welcome, and nothing that matters
            if (reader.socket >= 0 && inode_of(reader.socket) != reader.inode) {
                drop(reader);
            } else if (reader.socket >= 0) {
                ssize_t got = recv(reader.socket, ignored, sizeof(ignored), MSG_DONTWAIT);
                if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                    drop(reader);
                }
            }
        }
    }
    return nullptr;
}

}  // namespace

void link_up(Store& store) noexcept {
    Link* link = static_cast<Link*>(std::calloc(1, sizeof(Link)));  // as long-lived as the process
    if (link == nullptr) {
        return;
    }
    link->store = &store;
    for (Reader& reader : link->readers) {
        reader.socket = -1;
    }
    link->memory_inode = inode_of(store.fd());
    find_paths(*link);
    connect_all(*link);
    // Signals are the workload's; the thread takes none.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, keep_up, link) == EINVAL) {  // too small for this process's TLS
        pthread_attr_destroy(&attributes);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_create(&thread, &attributes, keep_up, link);
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ttmem
