// SPDX-License-Identifier: Apache-2.0
//
// A client of the legacy protocol, driven line by line from stdin.
//
// It puts on the socket what the C++ proof of concept ("POC") puts there: its tracking client's events, its monitor's
// queries, in each of the record sizes that were ever built. Tests start it, write commands, and read its answers.
//
//   g++ -O2 -std=c++17 -pthread -o legacy_client legacy_client.cpp
//
// Connection
//   size 72|112|128|144               record size from now on; 144 at the start
//   connect PATH                      connect, SO_SNDBUF 1 MiB
//   close                             close the connection
//   forge PID                         process_id of later events; without it getpid(), asked anew for every event
//
// Events: nothing is printed, nothing is answered
//   alloc DEV SIZE TYPE ID            TYPE: 0 DRAM, 1 L1, 2 SYSTEM_MEMORY, 3 L1_SMALL, 4 TRACE
//   free DEV ID
//   cb_alloc DEV SIZE ID
//   cb_free DEV SIZE ID
//   kernel_load DEV SIZE TYPE ID      TYPE: 0 application, 1 fabric, 2 dispatch
//   kernel_unload DEV SIZE ID
//   burst N DEV SIZE TYPE BASE STEP   N allocs, with IDs BASE, BASE+STEP, BASE+2*STEP, ...
//   short_cb_alloc DEV SIZE ID        the last four in the 32-byte form, whatever `size` says
//   short_cb_free DEV SIZE ID
//   short_kernel_load DEV SIZE ID
//   short_kernel_unload DEV SIZE ID
//   dump                              DUMP_REMAINING: the server prints, no reply
//   dump_kernels                      DUMP_KERNELS: likewise
//   raw HEX                           these bytes as they are, in one send; blanks between digits are ignored
//
// Queries: one send, one recv, one line. Fields the record size lacks are left out; `bytes` is what recv returned
//   query DEV     response device=0 dram=0 l1=0 l1_small=0 trace=0 cb=0 kernel=0 bytes=144
//   info DEV      info device=0 cb=0 kernel=0 total_dram_size=0 ... ringbuffer_num_programs=0 bytes=144
//                 DEV -1 asks for num_devices
//   pending       pending bytes=0: what the server has sent and nobody has read
//
// Process
//   pid                               pid=4711
//   ok TEXT                           ok TEXT: every command before it has been carried out
//   child COMMAND ...                 a forked child prints `child pid=4712`, runs the command on the inherited socket
//                                     and exits; then `child exit=0` or `child signal=6`
//   sleep_forever                     keep the connection, do nothing
//   abort                             die by SIGABRT
//
// Numbers are decimal or 0x hexadecimal. Empty lines and lines that start with # are skipped. The end of stdin ends the
// program with 0. A command that cannot be carried out ends it with 2 and a sentence on stderr. Signals keep their
// default action and send() has no MSG_NOSIGNAL: a server that goes away kills this program by SIGPIPE, as it kills
// an application with the POC's client inside.
//
// Any event may be sent in any record size, also where the build of that size did not know the type.

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace {

// The records. Versions differ only in which blocks follow the header:
//
//   A   72   header usage
//   B  112   header usage          geometry
//   C  128   header usage programs geometry
//   D  144   header usage programs geometry ring

#define PACKED __attribute__((packed))

enum Type : uint8_t {
    ALLOC = 1,
    FREE = 2,
    QUERY = 3,
    RESPONSE = 4,
    DUMP_REMAINING = 5,
    DEVICE_INFO_QUERY = 6,
    DEVICE_INFO_RESPONSE = 7,
    CB_ALLOC = 8,
    CB_FREE = 9,
    KERNEL_LOAD = 10,
    KERNEL_UNLOAD = 11,
    DUMP_KERNELS = 12,
};

struct PACKED Header {
    uint8_t type;
    uint8_t pad1[3];
    int32_t device_id;
    uint64_t size;
    uint8_t buffer_type;
    uint8_t pad2[3];
    int32_t process_id;
    uint64_t buffer_id;
    uint64_t timestamp;
};

struct PACKED Usage {
    uint64_t dram_allocated;
    uint64_t l1_allocated;
    uint64_t l1_small_allocated;
    uint64_t trace_allocated;
};

struct PACKED Programs {
    uint64_t cb_allocated;
    uint64_t kernel_allocated;
};

struct PACKED Geometry {
    uint64_t total_dram_size;
    uint64_t total_l1_size;
    uint32_t arch_type;
    uint32_t num_dram_channels;
    uint32_t dram_size_per_channel;
    uint32_t l1_size_per_core;
    uint32_t is_available;
    uint32_t num_devices;
};

struct PACKED Ring {
    uint32_t ringbuffer_total_size;
    uint32_t ringbuffer_used_bytes;
    uint32_t ringbuffer_num_programs;
    uint32_t pad3;
};

struct PACKED AllocMessageA {
    static constexpr bool has_programs = false, has_geometry = false, has_ring = false;
    Header header;
    Usage usage;
};

struct PACKED AllocMessageB {
    static constexpr bool has_programs = false, has_geometry = true, has_ring = false;
    Header header;
    Usage usage;
    Geometry geometry;
};

struct PACKED AllocMessageC {
    static constexpr bool has_programs = true, has_geometry = true, has_ring = false;
    Header header;
    Usage usage;
    Programs programs;
    Geometry geometry;
};

struct PACKED AllocMessageD {
    static constexpr bool has_programs = true, has_geometry = true, has_ring = true;
    Header header;
    Usage usage;
    Programs programs;
    Geometry geometry;
    Ring ring;
};

struct PACKED CBKernelMessage {
    uint8_t type;
    uint8_t pad1[3];
    int32_t device_id;
    uint64_t size;
    uint64_t id;
    int32_t process_id;
    uint8_t pad2[4];
};

#define AT(record, field, offset) \
    static_assert(offsetof(record, field) == (offset), #record "." #field " is not at " #offset)
#define SIZE(record, bytes) static_assert(sizeof(record) == (bytes), #record " does not have " #bytes " bytes")

SIZE(Header, 40);
AT(Header, type, 0);
AT(Header, pad1, 1);
AT(Header, device_id, 4);
AT(Header, size, 8);
AT(Header, buffer_type, 16);
AT(Header, pad2, 17);
AT(Header, process_id, 20);
AT(Header, buffer_id, 24);
AT(Header, timestamp, 32);

SIZE(AllocMessageA, 72);
AT(AllocMessageA, header, 0);
AT(AllocMessageA, usage.dram_allocated, 40);
AT(AllocMessageA, usage.l1_allocated, 48);
AT(AllocMessageA, usage.l1_small_allocated, 56);
AT(AllocMessageA, usage.trace_allocated, 64);

SIZE(AllocMessageB, 112);
AT(AllocMessageB, header, 0);
AT(AllocMessageB, usage.dram_allocated, 40);
AT(AllocMessageB, usage.l1_allocated, 48);
AT(AllocMessageB, usage.l1_small_allocated, 56);
AT(AllocMessageB, usage.trace_allocated, 64);
AT(AllocMessageB, geometry.total_dram_size, 72);
AT(AllocMessageB, geometry.total_l1_size, 80);
AT(AllocMessageB, geometry.arch_type, 88);
AT(AllocMessageB, geometry.num_dram_channels, 92);
AT(AllocMessageB, geometry.dram_size_per_channel, 96);
AT(AllocMessageB, geometry.l1_size_per_core, 100);
AT(AllocMessageB, geometry.is_available, 104);
AT(AllocMessageB, geometry.num_devices, 108);

SIZE(AllocMessageC, 128);
AT(AllocMessageC, header, 0);
AT(AllocMessageC, usage.dram_allocated, 40);
AT(AllocMessageC, usage.l1_allocated, 48);
AT(AllocMessageC, usage.l1_small_allocated, 56);
AT(AllocMessageC, usage.trace_allocated, 64);
AT(AllocMessageC, programs.cb_allocated, 72);
AT(AllocMessageC, programs.kernel_allocated, 80);
AT(AllocMessageC, geometry.total_dram_size, 88);
AT(AllocMessageC, geometry.total_l1_size, 96);
AT(AllocMessageC, geometry.arch_type, 104);
AT(AllocMessageC, geometry.num_dram_channels, 108);
AT(AllocMessageC, geometry.dram_size_per_channel, 112);
AT(AllocMessageC, geometry.l1_size_per_core, 116);
AT(AllocMessageC, geometry.is_available, 120);
AT(AllocMessageC, geometry.num_devices, 124);

SIZE(AllocMessageD, 144);
AT(AllocMessageD, header, 0);
AT(AllocMessageD, usage.dram_allocated, 40);
AT(AllocMessageD, usage.l1_allocated, 48);
AT(AllocMessageD, usage.l1_small_allocated, 56);
AT(AllocMessageD, usage.trace_allocated, 64);
AT(AllocMessageD, programs.cb_allocated, 72);
AT(AllocMessageD, programs.kernel_allocated, 80);
AT(AllocMessageD, geometry.total_dram_size, 88);
AT(AllocMessageD, geometry.total_l1_size, 96);
AT(AllocMessageD, geometry.arch_type, 104);
AT(AllocMessageD, geometry.num_dram_channels, 108);
AT(AllocMessageD, geometry.dram_size_per_channel, 112);
AT(AllocMessageD, geometry.l1_size_per_core, 116);
AT(AllocMessageD, geometry.is_available, 120);
AT(AllocMessageD, geometry.num_devices, 124);
AT(AllocMessageD, ring.ringbuffer_total_size, 128);
AT(AllocMessageD, ring.ringbuffer_used_bytes, 132);
AT(AllocMessageD, ring.ringbuffer_num_programs, 136);
AT(AllocMessageD, ring.pad3, 140);

SIZE(CBKernelMessage, 32);
AT(CBKernelMessage, type, 0);
AT(CBKernelMessage, pad1, 1);
AT(CBKernelMessage, device_id, 4);
AT(CBKernelMessage, size, 8);
AT(CBKernelMessage, id, 16);
AT(CBKernelMessage, process_id, 24);
AT(CBKernelMessage, pad2, 28);

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the records are little-endian");

// What the commands have set so far.
int connection = -1;
size_t record_size = sizeof(AllocMessageD);
std::optional<int32_t> forged_pid;

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "legacy_client: %s\n", what.c_str());
    std::fflush(stdout);
    // Not exit(): in a child it would move the stdin that the parent goes on reading.
    _exit(2);
}

[[noreturn]] void fail_with_errno(const std::string& what) { fail(what + ": " + std::strerror(errno)); }

// The words after the command, taken one by one from the left.
class Arguments {
  public:
    Arguments(std::string command, const std::string& text) : command_(std::move(command)), words_(text) {}

    std::string word(const char* name) {
        std::string word;
        if (!(words_ >> word)) fail(command_ + ": " + name + " is missing");
        return word;
    }

    template <typename Integer>
    Integer number(const char* name) {
        using Limits = std::numeric_limits<Integer>;
        const std::string text = word(name);
        const bool negative = text[0] == '-';
        std::string digits = text.substr(negative ? 1 : 0);
        const bool hexadecimal = digits.rfind("0x", 0) == 0;
        if (hexadecimal) digits.erase(0, 2);

        uint64_t magnitude = 0;
        const char* last = digits.data() + digits.size();
        const auto [end, error] = std::from_chars(digits.data(), last, magnitude, hexadecimal ? 16 : 10);
        const bool well_formed = error == std::errc() && end == last;
        const uint64_t largest = static_cast<uint64_t>(Limits::max()) + (negative ? 1 : 0);
        if (!well_formed || magnitude > largest || (negative && !Limits::is_signed)) {
            fail(command_ + ": " + name + " must be a number from " + std::to_string(Limits::min()) + " to " +
                 std::to_string(Limits::max()) + ", not " + text);
        }
        return static_cast<Integer>(negative ? 0 - magnitude : magnitude);
    }

    std::string rest() {
        std::string text;
        std::getline(words_ >> std::ws, text);
        return text;
    }

    void finish() {
        const std::string extra = rest();
        if (!extra.empty()) fail(command_ + ": too many arguments: " + extra);
    }

  private:
    std::string command_;
    std::istringstream words_;
};

// Calls `use` with a zeroed record of the size chosen by the `size` command.
template <typename Use>
void with_record(Use use) {
    const auto zeroed = [&use](auto record) {
        std::memset(&record, 0, sizeof record);
        use(record);
    };
    switch (record_size) {
        case sizeof(AllocMessageA): return zeroed(AllocMessageA{});
        case sizeof(AllocMessageB): return zeroed(AllocMessageB{});
        case sizeof(AllocMessageC): return zeroed(AllocMessageC{});
        case sizeof(AllocMessageD): return zeroed(AllocMessageD{});
    }
}

void need_connection() {
    if (connection < 0) fail("not connected: use connect PATH first");
}

// The tracking client's send: blocking, until the whole record is out.
void send_all(const void* data, size_t bytes) {
    need_connection();
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t sent = send(connection, next, bytes, 0);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) fail_with_errno("send");
        next += sent;
        bytes -= static_cast<size_t>(sent);
    }
}

int32_t sender() { return forged_pid.value_or(static_cast<int32_t>(getpid())); }

uint64_t now() { return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()); }

Header zero_header(Type type) {
    Header header;
    std::memset(&header, 0, sizeof header);
    header.type = type;
    return header;
}

Header event_header(Type type, int32_t device) {
    Header header = zero_header(type);
    header.device_id = device;
    header.process_id = sender();
    return header;
}

void send_record(const Header& header) {
    with_record([&](auto& record) {
        record.header = header;
        send_all(&record, sizeof record);
    });
}

void send_alloc(int32_t device, uint64_t size, uint8_t buffer_type, uint64_t id) {
    Header header = event_header(ALLOC, device);
    header.size = size;
    header.buffer_type = buffer_type;
    header.buffer_id = id;
    header.timestamp = now();
    send_record(header);
}

// The monitor's exchange: one send of the record, one recv of as much, no loop around either. The reply replaces the
// question in `record`; the result is the number of bytes received.
template <typename Record>
ssize_t exchange(Type question, Type answer, int32_t device, Record& record) {
    need_connection();
    record.header = zero_header(question);
    record.header.device_id = device;
    if (send(connection, &record, sizeof record, 0) < 0) fail_with_errno("send");
    std::memset(&record, 0, sizeof record);
    const ssize_t received = recv(connection, &record, sizeof record, 0);
    if (received < 0) fail_with_errno("recv");
    if (received == 0) fail("the server closed the connection instead of answering");
    if (record.header.type != answer) {
        fail("the reply has type " + std::to_string(record.header.type) + " where " + std::to_string(answer) +
             " was due");
    }
    return received;
}

void print_field(const char* name, uint64_t value) { std::printf(" %s=%" PRIu64, name, value); }

template <typename Record>
void print_programs([[maybe_unused]] const Record& record) {
    if constexpr (Record::has_programs) {
        print_field("cb", record.programs.cb_allocated);
        print_field("kernel", record.programs.kernel_allocated);
    }
}

// The commands, in the order of the list at the top.

void set_size(Arguments& arguments) {
    const auto size = arguments.number<uint32_t>("N");
    arguments.finish();
    if (size != sizeof(AllocMessageA) && size != sizeof(AllocMessageB) && size != sizeof(AllocMessageC) &&
        size != sizeof(AllocMessageD)) {
        fail("size: no record has " + std::to_string(size) + " bytes; choose 72, 112, 128 or 144");
    }
    record_size = size;
}

void connect_to(Arguments& arguments) {
    const std::string path = arguments.rest();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty()) fail("connect: PATH is missing");
    if (path.size() >= sizeof address.sun_path) fail("connect: the path is too long for a socket: " + path);
    if (connection >= 0) fail("connect: already connected; use close first");
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

    connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connection < 0) fail_with_errno("socket");
    if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        fail_with_errno("connect " + path);
    }
    const int send_buffer = 1 << 20;
    if (setsockopt(connection, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer) != 0) {
        fail_with_errno("SO_SNDBUF");
    }
}

void close_connection(Arguments& arguments) {
    arguments.finish();
    need_connection();
    close(connection);
    connection = -1;
}

void forge(Arguments& arguments) {
    forged_pid = arguments.number<int32_t>("PID");
    arguments.finish();
}

void alloc(Arguments& arguments) {
    const auto device = arguments.number<int32_t>("DEV");
    const auto size = arguments.number<uint64_t>("SIZE");
    const auto buffer_type = arguments.number<uint8_t>("TYPE");
    const auto id = arguments.number<uint64_t>("ID");
    arguments.finish();
    send_alloc(device, size, buffer_type, id);
}

void free_buffer(Arguments& arguments) {
    Header header = event_header(FREE, arguments.number<int32_t>("DEV"));
    header.buffer_id = arguments.number<uint64_t>("ID");
    arguments.finish();
    send_record(header);
}

void kernel_load(Arguments& arguments) {
    Header header = event_header(KERNEL_LOAD, arguments.number<int32_t>("DEV"));
    header.size = arguments.number<uint64_t>("SIZE");
    header.buffer_type = arguments.number<uint8_t>("TYPE");
    header.buffer_id = arguments.number<uint64_t>("ID");
    header.timestamp = now();
    arguments.finish();
    send_record(header);
}

// cb_alloc, cb_free, kernel_unload: only the first of them carries a time.
template <Type type>
void sized_event(Arguments& arguments) {
    Header header = event_header(type, arguments.number<int32_t>("DEV"));
    header.size = arguments.number<uint64_t>("SIZE");
    header.buffer_id = arguments.number<uint64_t>("ID");
    if (type == CB_ALLOC) header.timestamp = now();
    arguments.finish();
    send_record(header);
}

void burst(Arguments& arguments) {
    const auto count = arguments.number<uint64_t>("N");
    const auto device = arguments.number<int32_t>("DEV");
    const auto size = arguments.number<uint64_t>("SIZE");
    const auto buffer_type = arguments.number<uint8_t>("TYPE");
    const auto base = arguments.number<uint64_t>("BASE");
    const auto step = arguments.number<uint64_t>("STEP");
    arguments.finish();
    for (uint64_t i = 0; i < count; ++i) send_alloc(device, size, buffer_type, base + i * step);
}

template <Type type>
void short_event(Arguments& arguments) {
    CBKernelMessage record;
    std::memset(&record, 0, sizeof record);
    record.type = type;
    record.device_id = arguments.number<int32_t>("DEV");
    record.size = arguments.number<uint64_t>("SIZE");
    record.id = arguments.number<uint64_t>("ID");
    record.process_id = sender();
    arguments.finish();
    send_all(&record, sizeof record);
}

// dump, dump_kernels: nothing but the type is set.
template <Type type>
void bare_request(Arguments& arguments) {
    arguments.finish();
    send_record(zero_header(type));
}

void raw(Arguments& arguments) {
    std::string digits;
    for (const char c : arguments.rest()) {
        if (std::isspace(static_cast<unsigned char>(c))) continue;
        if (!std::isxdigit(static_cast<unsigned char>(c))) fail(std::string("raw: not a hexadecimal digit: ") + c);
        digits += c;
    }
    if (digits.empty() || digits.size() % 2 != 0) fail("raw: HEX needs two digits for each byte");
    std::string bytes;
    for (size_t i = 0; i < digits.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    }
    send_all(bytes.data(), bytes.size());
}

void query(Arguments& arguments) {
    const auto device = arguments.number<int32_t>("DEV");
    arguments.finish();
    with_record([&](auto& record) {
        const ssize_t received = exchange(QUERY, RESPONSE, device, record);
        std::printf("response device=%" PRId32, record.header.device_id);
        print_field("dram", record.usage.dram_allocated);
        print_field("l1", record.usage.l1_allocated);
        print_field("l1_small", record.usage.l1_small_allocated);
        print_field("trace", record.usage.trace_allocated);
        print_programs(record);
        std::printf(" bytes=%zd\n", received);
    });
}

void info(Arguments& arguments) {
    const auto device = arguments.number<int32_t>("DEV");
    arguments.finish();
    with_record([&](auto& record) {
        using Record = std::remove_reference_t<decltype(record)>;
        const ssize_t received = exchange(DEVICE_INFO_QUERY, DEVICE_INFO_RESPONSE, device, record);
        std::printf("info device=%" PRId32, record.header.device_id);
        print_programs(record);
        if constexpr (Record::has_geometry) {
            print_field("total_dram_size", record.geometry.total_dram_size);
            print_field("total_l1_size", record.geometry.total_l1_size);
            print_field("arch_type", record.geometry.arch_type);
            print_field("num_dram_channels", record.geometry.num_dram_channels);
            print_field("dram_size_per_channel", record.geometry.dram_size_per_channel);
            print_field("l1_size_per_core", record.geometry.l1_size_per_core);
            print_field("is_available", record.geometry.is_available);
            print_field("num_devices", record.geometry.num_devices);
        }
        if constexpr (Record::has_ring) {
            print_field("ringbuffer_total_size", record.ring.ringbuffer_total_size);
            print_field("ringbuffer_used_bytes", record.ring.ringbuffer_used_bytes);
            print_field("ringbuffer_num_programs", record.ring.ringbuffer_num_programs);
        }
        std::printf(" bytes=%zd\n", received);
    });
}

void pending(Arguments& arguments) {
    arguments.finish();
    need_connection();
    int bytes = 0;
    if (ioctl(connection, FIONREAD, &bytes) != 0) fail_with_errno("FIONREAD");
    std::printf("pending bytes=%d\n", bytes);
}

void print_pid(Arguments& arguments) {
    arguments.finish();
    std::printf("pid=%d\n", getpid());
}

void ok(Arguments& arguments) { std::printf("ok %s\n", arguments.rest().c_str()); }

void run(const std::string& line);

void child(Arguments& arguments) {
    const std::string command = arguments.rest();
    if (command.empty()) fail("child: COMMAND is missing");
    const pid_t pid = fork();
    if (pid < 0) fail_with_errno("fork");
    if (pid == 0) {
        std::printf("child pid=%d\n", getpid());
        run(command);
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) fail_with_errno("waitpid");
    }
    if (WIFSIGNALED(status)) {
        std::printf("child signal=%d\n", WTERMSIG(status));
        return;
    }
    std::printf("child exit=%d\n", WEXITSTATUS(status));
    // The child has said on stderr what was wrong.
    if (WEXITSTATUS(status) != 0) _exit(WEXITSTATUS(status));
}

void sleep_forever(Arguments& arguments) {
    arguments.finish();
    while (true) pause();
}

void abort_now(Arguments& arguments) {
    arguments.finish();
    std::abort();
}

using Command = void (*)(Arguments&);

const std::map<std::string, Command> commands = {
    {"size", set_size},
    {"connect", connect_to},
    {"close", close_connection},
    {"forge", forge},
    {"alloc", alloc},
    {"free", free_buffer},
    {"cb_alloc", sized_event<CB_ALLOC>},
    {"cb_free", sized_event<CB_FREE>},
    {"kernel_load", kernel_load},
    {"kernel_unload", sized_event<KERNEL_UNLOAD>},
    {"burst", burst},
    {"short_cb_alloc", short_event<CB_ALLOC>},
    {"short_cb_free", short_event<CB_FREE>},
    {"short_kernel_load", short_event<KERNEL_LOAD>},
    {"short_kernel_unload", short_event<KERNEL_UNLOAD>},
    {"dump", bare_request<DUMP_REMAINING>},
    {"dump_kernels", bare_request<DUMP_KERNELS>},
    {"raw", raw},
    {"query", query},
    {"info", info},
    {"pending", pending},
    {"pid", print_pid},
    {"ok", ok},
    {"child", child},
    {"sleep_forever", sleep_forever},
    {"abort", abort_now},
};

void run(const std::string& line) {
    std::istringstream words(line);
    std::string name;
    if (!(words >> name) || name[0] == '#') return;
    const auto command = commands.find(name);
    if (command == commands.end()) fail("no such command: " + name + "; the head of legacy_client.cpp lists them");
    std::string text;
    std::getline(words, text);
    Arguments arguments(name, text);
    command->second(arguments);
}

}  // namespace

int main() {
    // A line is complete the moment it is printed, and a fork never copies half of one.
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    std::string line;
    while (std::getline(std::cin, line)) run(line);
    return 0;
}
