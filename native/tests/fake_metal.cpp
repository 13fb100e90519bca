// SPDX-License-Identifier: Apache-2.0
// A replacement for libtt_metal.so: the exported names that native/src/metal.h lists, with a small real allocator and
// programs. Everything else is as simple as possible. Compiled as position independent code with default
// visibility, so these functions call each other through the procedure linkage table, as tt-metal's do.
//
//   FAKE_NO_STATISTICS, FAKE_NO_MARK_ADDRESS, FAKE_NO_BUFFER_SIZE, FAKE_NO_ALLOCATE_BUFFER,
//   FAKE_NO_MESH_ALLOCATOR   a wheel in which that function has another name
//   FAKE_OTHER_SLOTS         a wheel whose IDevice has one more virtual function in front
//   FAKE_BEFORE_79           a wheel that inlines some functions, and has older ones
//   FAKE_BEFORE_75           the same, without scratchpads, and with a list behind the allocator's statistics
//   FAKE_MOVED_FIELDS        a wheel with the fields of a Buffer elsewhere
//   FAKE_INNER_FIELDS        a wheel with these fields in an object of their own, as since 0.79; a flag says
//                            whether the address is among them
//   FAKE_COMPUTED_SIZE       a wheel whose Buffer::size() does more than load a field
//   FAKE_ODD_GUARD           with FAKE_INNER_FIELDS: the flag is a byte of the address itself. So Buffer::address() has
//                            the expected code, but does not return every value of the field.
#include "fake_metal.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#ifdef FAKE_NO_STATISTICS
#define get_statistics get_other_statistics
#endif
#ifdef FAKE_NO_MARK_ADDRESS
#define mark_address mark_other_address
#endif
#ifdef FAKE_NO_BUFFER_SIZE
#define aligned_size_per_bank other_size_per_bank
#endif
#ifdef FAKE_NO_ALLOCATE_BUFFER
#define allocate_buffer allocate_other_buffer
#endif
#ifdef FAKE_NO_MESH_ALLOCATOR
#define allocator_impl other_allocator_impl
#endif

#ifdef FAKE_BEFORE_75
#define FAKE_BEFORE_79
#define FAKE_SINCE_75 __attribute__((visibility("hidden")))
#else
#define FAKE_SINCE_75
#endif
#ifdef FAKE_BEFORE_79
#define FAKE_SINCE_79 __attribute__((visibility("hidden")))
#else
#define FAKE_SINCE_79
#endif

namespace ttsl {
template <typename T, typename Tag>
struct StrongType {
    T value;
};
}  // namespace ttsl

namespace tt {

struct xy_pair {
    size_t x, y;
};

namespace umd {
class ClusterDescriptor {
public:
    const std::unordered_map<int, uint64_t>& get_chip_unique_ids() const;
    bool is_chip_remote(int chip) const;
    std::unordered_map<int, uint64_t> ids;
};
const std::unordered_map<int, uint64_t>& ClusterDescriptor::get_chip_unique_ids() const { return ids; }
bool ClusterDescriptor::is_chip_remote(int chip) const { return chip % 2 == 1; }
}  // namespace umd

class Cluster {
public:
    Cluster();
    umd::ClusterDescriptor* get_cluster_desc() const;
    int get_board_type(int chip) const;
    std::unique_ptr<umd::ClusterDescriptor> descriptor;
};
Cluster::Cluster() : descriptor(new umd::ClusterDescriptor) {
    for (int chip = 0; chip < 32; chip++) {
        descriptor->ids[chip] = fake::kUniqueId + static_cast<uint64_t>(chip);
    }
}
umd::ClusterDescriptor* Cluster::get_cluster_desc() const { return descriptor.get(); }
int Cluster::get_board_type(int) const { return 4; }

namespace tt_metal {

enum class BufferType { DRAM, L1, SYSTEM_MEMORY, L1_SMALL, TRACE };
enum class TensorMemoryLayout { INTERLEAVED = 0, HEIGHT_SHARDED = 2 };
enum class HalMemType : uint8_t { L1, DRAM };
enum class Arch { WORMHOLE = 2 };
struct ContextIdTag {};
using ContextId = ttsl::StrongType<int, ContextIdTag>;

class MetalContext {
public:
    static bool instance_exists(ContextId id);
    static MetalContext& instance(ContextId id);
    Cluster& get_cluster();
    Cluster cluster;
};
bool MetalContext::instance_exists(ContextId) { return true; }
MetalContext& MetalContext::instance(ContextId) {
    static MetalContext* context = new MetalContext;
    return *context;
}
Cluster& MetalContext::get_cluster() { return cluster; }

namespace hal {
uint32_t get_max_worker_l1_unreserved_size();
uint32_t get_max_worker_l1_unreserved_size() {
    return static_cast<uint32_t>(fake::kL1Base + fake::kBankSize[1] + fake::kBankSize[3] - fake::kMapEnd);
}
}  // namespace hal

class IDevice;
class AllocatorImpl;

struct BufferRegion {
    uint64_t offset, size;
};

struct BufferHead {
    AllocatorImpl* allocator;
    uint64_t something;
#ifdef FAKE_MOVED_FIELDS
    uint64_t more;
#endif
#ifdef FAKE_INNER_FIELDS
    const struct BufferFields* inner_;
#endif
};

struct BufferFields {
    IDevice* device_;
    uint64_t size_;
    BufferType type_;
    TensorMemoryLayout layout_;
    uint64_t address_;
    uint32_t cores_;
    uint32_t first_core_;
    bool per_core_;  // has an address of its own on each of its cores; address_ is that of the first
    // With FAKE_INNER_FIELDS: the address once more, if the flag is set.
    bool placed_;
    union {
        uint32_t place_;
        uint8_t first_byte_;
    };
    uint64_t last_byte_;  // with FAKE_COMPUTED_SIZE: size_ - 1
};

class Buffer : public BufferHead, public BufferFields {
public:
    FAKE_SINCE_79 uint64_t size() const;
    FAKE_SINCE_79 BufferType buffer_type() const;
    FAKE_SINCE_79 TensorMemoryLayout buffer_layout() const;
    FAKE_SINCE_79 IDevice* device() const;
    uint64_t address() const;
    uint64_t aligned_size_per_bank() const;
    uint64_t aligned_page_size() const;
    std::optional<uint32_t> num_cores() const;
    bool has_shard_spec() const;
    bool is_valid_region(const BufferRegion& region) const;
    bool is_dram() const;
    bool is_l1() const;
    bool is_trace() const;
    uint64_t address_elsewhere() const;
};
#ifdef FAKE_INNER_FIELDS
uint64_t Buffer::size() const { return inner_->size_; }
BufferType Buffer::buffer_type() const { return inner_->type_; }
TensorMemoryLayout Buffer::buffer_layout() const { return inner_->layout_; }
#ifdef FAKE_ODD_GUARD
uint64_t Buffer::address() const { return inner_->first_byte_ != 0 ? inner_->place_ : address_elsewhere(); }
#else
uint64_t Buffer::address() const { return inner_->placed_ ? inner_->place_ : address_elsewhere(); }
#endif
#else
#ifdef FAKE_COMPUTED_SIZE
uint64_t Buffer::size() const { return last_byte_ + 1; }
#else
uint64_t Buffer::size() const { return size_; }
#endif
BufferType Buffer::buffer_type() const { return type_; }
TensorMemoryLayout Buffer::buffer_layout() const { return layout_; }
uint64_t Buffer::address() const { return address_; }
#endif
uint64_t Buffer::address_elsewhere() const { return address_; }
IDevice* Buffer::device() const { return device_; }
std::optional<uint32_t> Buffer::num_cores() const {
    return has_shard_spec() ? std::optional<uint32_t>(cores_) : std::nullopt;
}
bool Buffer::has_shard_spec() const { return layout_ >= TensorMemoryLayout::HEIGHT_SHARDED; }
bool Buffer::is_valid_region(const BufferRegion& region) const { return region.offset + region.size <= size_; }
bool Buffer::is_dram() const { return type_ == BufferType::DRAM || type_ == BufferType::TRACE; }
bool Buffer::is_l1() const { return type_ == BufferType::L1 || type_ == BufferType::L1_SMALL; }
bool Buffer::is_trace() const { return type_ == BufferType::TRACE; }
uint64_t Buffer::aligned_page_size() const { return 16; }
uint64_t Buffer::aligned_size_per_bank() const {
    uint64_t banks = fake::kBankCount[static_cast<int>(type_)];
    uint64_t bytes = has_shard_spec() ? (size_ + cores_ - 1) / cores_ : (size_ + banks - 1) / banks;
    return (bytes + 15) / 16 * 16;
}

namespace experimental::per_core_allocation {
bool is_per_core_allocation(const Buffer& buffer);
bool is_per_core_allocation(const Buffer& buffer) { return buffer.per_core_; }
}  // namespace experimental::per_core_allocation

struct Statistics {
    uint64_t total, allocated, free, largest_free;
#ifdef FAKE_BEFORE_75
    std::vector<uint32_t> addresses;
#else
    uint64_t more[12];  // fields that a later version may add
#endif
};

class AllocatorImpl {
public:
    ~AllocatorImpl();
    uint64_t allocate_buffer(Buffer* buffer);
    void deallocate_buffer(Buffer* buffer);
    void deallocate_buffers();
    void clear();
    uint32_t get_alignment(BufferType type) const;
    uint32_t get_num_banks(const BufferType& type) const;
    uint64_t get_bank_size(const BufferType& type) const;
    uint64_t get_base_allocator_addr(const HalMemType& type) const;
    Statistics get_statistics(const BufferType& type) const;
    size_t get_num_allocated_buffers() const;
    FAKE_SINCE_79 bool has_bank(BufferType type, const xy_pair& core) const;
    xy_pair get_logical_core_from_bank_id(uint32_t bank) const;

private:
    using Taken = std::map<uint64_t, uint64_t>;  // address -> bytes per bank

    static std::optional<uint64_t> take(Taken& taken, int type, uint64_t bytes);

    mutable std::mutex mutex_;
    Taken taken_[5];
    Taken on_core_[fake::kGridWidth * fake::kGridHeight];
    std::map<const Buffer*, std::vector<uint64_t>> per_core_;  // their addresses, one for each core
};

uint64_t first_address(int type) {
    constexpr uint64_t kFirst[5] = {fake::kDramBase, fake::kL1Base, 0, fake::kL1Base + fake::kBankSize[1], 1u << 30};
    return kFirst[type];
}

AllocatorImpl::~AllocatorImpl() { deallocate_buffers(); }
uint64_t AllocatorImpl::allocate_buffer(Buffer* buffer) {
    int type = static_cast<int>(buffer->type_);
    uint64_t bytes = (buffer->aligned_size_per_bank() + fake::kUnit - 1) / fake::kUnit * fake::kUnit;
    std::lock_guard<std::mutex> held(mutex_);
    if (buffer->per_core_) {
        std::vector<uint64_t> addresses;
        for (uint32_t core = buffer->first_core_; core < buffer->first_core_ + buffer->cores_; core++) {
            addresses.push_back(take(on_core_[core], type, bytes).value());
        }
        buffer->address_ = addresses.front();
        per_core_[buffer] = addresses;
        return buffer->address_;
    }
    std::optional<uint64_t> at = take(taken_[type], type, bytes);
    if (!at.has_value()) {
        throw std::runtime_error("Out of Memory");
    }
    buffer->address_ = *at;
    return *at;
}
std::optional<uint64_t> AllocatorImpl::take(Taken& taken, int type, uint64_t bytes) {
    uint64_t at = first_address(type), end = at + fake::kBankSize[type];
    for (const auto& [address, size] : taken) {
        if (address - at >= bytes) {
            break;
        }
        at = address + size;
    }
    if (at + bytes > end) {
        return std::nullopt;
    }
    taken[at] = bytes;
    return at;
}
void AllocatorImpl::deallocate_buffer(Buffer* buffer) {
    if (buffer->per_core_) {
        std::lock_guard<std::mutex> held(mutex_);
        uint32_t core = buffer->first_core_;
        for (uint64_t address : per_core_.at(buffer)) {
            on_core_[core++].erase(address);
        }
        per_core_.erase(buffer);
    } else {
        std::lock_guard<std::mutex> held(mutex_);
        taken_[static_cast<int>(buffer->type_)].erase(buffer->address_);
    }
    std::this_thread::yield();  // as in tt-metal, another thread may get the address before this returns
}
void AllocatorImpl::deallocate_buffers() {
    std::lock_guard<std::mutex> held(mutex_);
    for (auto& type : taken_) {
        type.clear();
    }
    for (auto& core : on_core_) {
        core.clear();
    }
    per_core_.clear();
}
void AllocatorImpl::clear() { deallocate_buffers(); }
uint32_t AllocatorImpl::get_alignment(BufferType) const { return fake::kUnit; }
uint32_t AllocatorImpl::get_num_banks(const BufferType& type) const { return fake::kBankCount[static_cast<int>(type)]; }
uint64_t AllocatorImpl::get_bank_size(const BufferType& type) const { return fake::kBankSize[static_cast<int>(type)]; }
uint64_t AllocatorImpl::get_base_allocator_addr(const HalMemType& type) const {
    return type == HalMemType::L1 ? fake::kL1Base : fake::kDramBase;
}
Statistics AllocatorImpl::get_statistics(const BufferType& type) const {
    std::lock_guard<std::mutex> held(mutex_);
    uint64_t used = 0, total = fake::kBankSize[static_cast<int>(type)];
    for (const auto& [_, size] : taken_[static_cast<int>(type)]) {
        used += size;
    }
    return {total, used, total - used, total - used, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};  // freed or ignored
}
size_t AllocatorImpl::get_num_allocated_buffers() const {
    std::lock_guard<std::mutex> held(mutex_);
    size_t count = per_core_.size();
    for (const auto& type : taken_) {
        count += type.size();
    }
    return count;
}
bool AllocatorImpl::has_bank(BufferType, const xy_pair& core) const {
    return core.x < fake::kGridWidth && core.y < fake::kGridHeight;
}

xy_pair AllocatorImpl::get_logical_core_from_bank_id(uint32_t bank) const {
    return {bank % fake::kGridWidth, bank / fake::kGridWidth};
}

// tt-metal's own destructor calls are those of a base class; this gives the same.
struct OwnedAllocator : AllocatorImpl {};

class IDevice {
public:
    virtual ~IDevice();
#ifdef FAKE_OTHER_SLOTS
    virtual const char* label() const;
#endif
    virtual Arch arch() const = 0;
    virtual int id() const = 0;
    virtual AllocatorImpl* own_allocator() const = 0;
};
IDevice::~IDevice() = default;
#ifdef FAKE_OTHER_SLOTS
const char* IDevice::label() const { return "device"; }
#endif

class Device : public IDevice {
public:
    explicit Device(int id);
    ~Device() override;
    Arch arch() const override;
    int id() const override;
    AllocatorImpl* own_allocator() const override;
    const std::unique_ptr<OwnedAllocator>& allocator_impl() const;

private:
    int id_;
    std::unique_ptr<OwnedAllocator> allocator_;
};
Device::Device(int id) : id_(id), allocator_(new OwnedAllocator) {}
Device::~Device() = default;
Arch Device::arch() const { return Arch::WORMHOLE; }
int Device::id() const { return id_; }
AllocatorImpl* Device::own_allocator() const { return allocator_.get(); }
const std::unique_ptr<OwnedAllocator>& Device::allocator_impl() const { return allocator_; }

struct CoreRange {
    xy_pair start, end;
};
class CoreRangeSet {
public:
    const std::vector<CoreRange>& ranges() const;
    uint64_t something;  // so that the ranges are not at offset 0
    std::vector<CoreRange> ranges_;
};
const std::vector<CoreRange>& CoreRangeSet::ranges() const { return ranges_; }

class GraphTracker {
public:
    static GraphTracker& instance();
    void track_allocate_cb(const CoreRangeSet& cores, uint64_t address, uint64_t size, bool global,
                           const IDevice* device);
    std::atomic<uint64_t> tracked{0};
};
GraphTracker& GraphTracker::instance() {
    static GraphTracker* tracker = new GraphTracker;
    return *tracker;
}
void GraphTracker::track_allocate_cb(const CoreRangeSet&, uint64_t, uint64_t, bool, const IDevice*) { tracked++; }

struct LLKMetadata {
    int something;
};

class Kernel {
public:
    virtual ~Kernel();
    std::string name() const;
    bool is_on_logical_core(const xy_pair& core) const;
    uint32_t get_binary_packed_size(IDevice* device, int index) const;
    std::vector<uint32_t>& common_runtime_args();
    using Each = std::function<void(const std::string&, uint32_t, uint32_t, const std::optional<LLKMetadata>&)>;
    FAKE_SINCE_79 void process_scratchpad_binding_handles(const Each& each) const;
    void process_scratchpad_binding_handles(std::function<void(const std::string&, uint32_t, uint32_t)> each) const;

    fake::ProgramSpec spec;
    uint32_t number;
    std::vector<uint32_t> words;
};
Kernel::~Kernel() = default;
class ComputeKernel : public Kernel {
public:
    ~ComputeKernel() override;
};
ComputeKernel::~ComputeKernel() = default;
class DataMovementKernel : public Kernel {
public:
    ~DataMovementKernel() override;
};
DataMovementKernel::~DataMovementKernel() = default;
class EthernetKernel : public Kernel {
public:
    ~EthernetKernel() override;
};
EthernetKernel::~EthernetKernel() = default;

std::string Kernel::name() const { return "kernels/longer_than_a_short_string_" + std::to_string(number); }
bool Kernel::is_on_logical_core(const xy_pair& core) const {
    return core.x >= spec.x && core.x <= spec.x_end && core.y >= spec.y && core.y <= spec.y_end;
}
uint32_t Kernel::get_binary_packed_size(IDevice*, int index) const {
    return 1000 + 16 * number + static_cast<uint32_t>(index);
}
std::vector<uint32_t>& Kernel::common_runtime_args() { return words; }
void Kernel::process_scratchpad_binding_handles(const Each& each) const {
    for (uint32_t i = 0; i < spec.scratchpads; i++) {
        each("scratch_" + std::to_string(i), 128 * (i + 1), i, std::nullopt);
    }
}

void Kernel::process_scratchpad_binding_handles(
    std::function<void(const std::string&, uint32_t, uint32_t)> each) const {
    for (uint32_t i = 0; i < spec.scratchpads; i++) {
        each("scratch_" + std::to_string(i), 128 * (i + 1), i);
    }
}

namespace distributed {
class MeshDevice;
}

namespace detail {

class ProgramImpl {
public:
    class CircularBufferAllocator {
    public:
        void mark_address(uint64_t address, uint64_t size, uint64_t base);
        CoreRange range;
        uint64_t end;
    };

    explicit ProgramImpl(const fake::ProgramSpec& spec);
    ~ProgramImpl();
    void compile(IDevice* device, bool force);
    void allocate_circular_buffers(const IDevice* device);
    void allocate_dataflow_buffers(const IDevice* device);
    FAKE_SINCE_75 void allocate_scratchpads(const IDevice* device);
    uint64_t get_id() const;
    std::unordered_map<uint32_t, std::shared_ptr<Kernel>>& get_kernels(uint32_t type);
    uint32_t& get_program_config_size(uint32_t type);

    uint64_t id;
    fake::ProgramSpec spec;
    uint32_t config_size = 0;
    bool compiled = false, cbs_placed = false, dfbs_placed = false;
    std::unordered_map<uint32_t, std::shared_ptr<Kernel>> kernels[3];
};

std::atomic<uint64_t> program_ids{0};

ProgramImpl::ProgramImpl(const fake::ProgramSpec& wanted) : id(++program_ids), spec(wanted) {
    for (uint32_t i = 0; i < spec.kernels; i++) {
        std::shared_ptr<Kernel> kernel;
        uint32_t type = 0;
        if (i % 3 == 0) {
            kernel = std::make_shared<ComputeKernel>();
        } else if (i % 3 == 1) {
            kernel = std::make_shared<DataMovementKernel>();
        } else {
            kernel = std::make_shared<EthernetKernel>();
            type = 1;
        }
        kernel->spec = spec;
        kernel->spec.scratchpads = i == 0 ? spec.scratchpads : 0;
        kernel->number = i;
        kernels[type][i] = kernel;
    }
}
ProgramImpl::~ProgramImpl() = default;
uint64_t ProgramImpl::get_id() const { return id; }
void ProgramImpl::compile(IDevice*, bool) {
    compiled = true;
    config_size = 192 + 4096 * spec.kernels;
}
void ProgramImpl::CircularBufferAllocator::mark_address(uint64_t address, uint64_t size, uint64_t) {
    end = address + size;
}
std::unordered_map<uint32_t, std::shared_ptr<Kernel>>& ProgramImpl::get_kernels(uint32_t type) {
    return type < 3 ? kernels[type] : throw std::out_of_range("no such core type");
}
uint32_t& ProgramImpl::get_program_config_size(uint32_t) { return config_size; }

}  // namespace detail

class Program {
public:
    explicit Program(const fake::ProgramSpec& spec);
    std::shared_ptr<detail::ProgramImpl> internal;
};
Program::Program(const fake::ProgramSpec& spec) : internal(new detail::ProgramImpl(spec)) {}

namespace distributed {

class MeshDeviceImpl;

class MeshDevice : public IDevice {
public:
    MeshDevice(uint32_t rows, uint32_t columns, uint32_t first_chip);
    ~MeshDevice() override;
    Arch arch() const override;
    int id() const override;
    AllocatorImpl* own_allocator() const override;
    std::vector<IDevice*> get_devices() const;
    size_t num_rows() const;
    size_t num_cols() const;
    const std::unique_ptr<OwnedAllocator>& allocator_impl() const;
    void clear_program_cache();

    int id_;
    uint32_t rows, columns;
    std::vector<std::unique_ptr<Device>> chips;
    std::unique_ptr<OwnedAllocator> allocator;
    std::unique_ptr<MeshDeviceImpl> impl;
};

class MeshDeviceImpl {
public:
    bool initialize_impl(MeshDevice* mesh, uint8_t queues, size_t small, size_t trace, size_t worker,
                         std::span<const uint32_t> banks, bool minimal);
    bool close_impl(MeshDevice* mesh);
};

std::atomic<int> mesh_ids{0};

MeshDevice::MeshDevice(uint32_t height, uint32_t width, uint32_t first_chip)
    : id_(mesh_ids++), rows(height), columns(width), impl(new MeshDeviceImpl) {
    for (uint32_t i = 0; i < rows * columns; i++) {
        chips.emplace_back(new Device(static_cast<int>(first_chip + i)));
    }
}
MeshDevice::~MeshDevice() = default;
Arch MeshDevice::arch() const { return Arch::WORMHOLE; }
int MeshDevice::id() const { return id_; }
AllocatorImpl* MeshDevice::own_allocator() const { return allocator.get(); }
std::vector<IDevice*> MeshDevice::get_devices() const {
    std::vector<IDevice*> all;
    for (const auto& chip : chips) {
        all.push_back(chip.get());
    }
    return all;
}
size_t MeshDevice::num_rows() const { return rows; }
size_t MeshDevice::num_cols() const { return columns; }
const std::unique_ptr<OwnedAllocator>& MeshDevice::allocator_impl() const { return allocator; }
void MeshDevice::clear_program_cache() {}

bool MeshDeviceImpl::initialize_impl(MeshDevice* mesh, uint8_t queues, size_t small, size_t trace, size_t worker,
                                     std::span<const uint32_t> banks, bool minimal) {
    OwnedAllocator passing;  // tt-metal destroys one on the stack, too
    mesh->allocator.reset(new OwnedAllocator);
    bool sizes = small == 32768 && trace == 90112 && worker == 7;
    return queues == 1 && sizes && banks.size() == 2 && banks[1] == 5 && minimal;
}
bool MeshDeviceImpl::close_impl(MeshDevice* mesh) {
    if (mesh->allocator == nullptr) {
        return false;
    }
    mesh->allocator->deallocate_buffers();
    mesh->allocator->clear();
    mesh->allocator.reset();
    return true;
}

class MeshCoordinate {
public:
    std::span<const uint32_t> coords() const;
    uint32_t values[2];
};
std::span<const uint32_t> MeshCoordinate::coords() const { return values; }

class MeshCoordinateRange {
public:
    const MeshCoordinate& start_coord() const;
    const MeshCoordinate& end_coord() const;
    MeshCoordinate start, end;
};
const MeshCoordinate& MeshCoordinateRange::start_coord() const { return start; }
const MeshCoordinate& MeshCoordinateRange::end_coord() const { return end; }

class MeshCommandQueue {
public:
    MeshDevice* mesh;
};

class MeshWorkloadImpl {
public:
    ~MeshWorkloadImpl();
    void compile(MeshDevice* mesh);
    void finalize_offsets(MeshDevice* mesh);
    void add_program(const MeshCoordinateRange& range, Program&& program);
    void load_binaries(MeshCommandQueue& queue);
    std::vector<Program> programs;
    std::unique_ptr<Buffer> binary;
};

class MeshWorkload {
public:
    MeshWorkload();
    ~MeshWorkload();
    std::unique_ptr<MeshWorkloadImpl> impl;
};
MeshWorkload::MeshWorkload() : impl(new MeshWorkloadImpl) {}
MeshWorkload::~MeshWorkload() = default;

void EnqueueMeshWorkload(MeshCommandQueue& queue, MeshWorkload& workload, bool blocking);

Buffer* new_buffer(IDevice* device, BufferType type, uint64_t size, uint32_t layout, uint32_t cores,
                   std::optional<uint32_t> first_core = std::nullopt) {
    auto buffer = std::make_unique<Buffer>();
    buffer->per_core_ = first_core.has_value();
    buffer->first_core_ = first_core.value_or(0);
    buffer->allocator = device->own_allocator();
    buffer->device_ = device;
    buffer->size_ = size;
    buffer->type_ = type;
    buffer->layout_ = static_cast<TensorMemoryLayout>(layout);
    buffer->cores_ = cores;
    buffer->last_byte_ = size - 1;
#ifdef FAKE_INNER_FIELDS
    buffer->inner_ = buffer.get();
#endif
    uint64_t address = buffer->allocator->allocate_buffer(buffer.get());
    if (address != buffer->address_) {
        throw std::logic_error("the address was changed on its way");
    }
#ifdef FAKE_ODD_GUARD
    buffer->place_ = static_cast<uint32_t>(address);
#else
    buffer->placed_ = size % 2 == 0;
    buffer->place_ = buffer->placed_ ? static_cast<uint32_t>(address) : 0;
#endif
    return buffer.release();
}

MeshWorkloadImpl::~MeshWorkloadImpl() = default;
void MeshWorkloadImpl::compile(MeshDevice*) {}
void MeshWorkloadImpl::finalize_offsets(MeshDevice*) {}

struct MeshTraceBuffer {};
class MeshTrace {
public:
    static void populate_mesh_buffer(MeshCommandQueue&, std::shared_ptr<MeshTraceBuffer>&, size_t, size_t, size_t);
};
void MeshTrace::populate_mesh_buffer(MeshCommandQueue&, std::shared_ptr<MeshTraceBuffer>&, size_t, size_t, size_t) {}
void MeshWorkloadImpl::add_program(const MeshCoordinateRange&, Program&& program) {
    programs.push_back(std::move(program));
}
void MeshWorkloadImpl::load_binaries(MeshCommandQueue& queue) {
    if (binary == nullptr) {
        binary.reset(new_buffer(queue.mesh, BufferType::DRAM, 4096, 0, 0));
    }
}
void EnqueueMeshWorkload(MeshCommandQueue& queue, MeshWorkload& workload, bool) {
    for (Program& program : workload.impl->programs) {
        program.internal->compile(queue.mesh, false);
        program.internal->allocate_circular_buffers(queue.mesh);
        program.internal->allocate_dataflow_buffers(queue.mesh);
        program.internal->allocate_scratchpads(queue.mesh);
    }
    workload.impl->load_binaries(queue);
}

}  // namespace distributed

namespace detail {

void ProgramImpl::allocate_circular_buffers(const IDevice* device) {
    if (spec.clash) {
        throw std::runtime_error("circular buffers clash with L1 buffers");
    }
    if (cbs_placed) {
        return;
    }
    cbs_placed = true;
    CoreRangeSet cores{7, {{{spec.x, spec.y}, {spec.x_end, spec.y_end}}}};
    uint64_t at = fake::kL1Base;
    for (uint32_t i = 0; i < spec.cbs; i++) {
        uint64_t size = 2048 * (i + 1);
        bool global = spec.global && i == 0;
        for (const auto& chip : static_cast<const distributed::MeshDevice*>(device)->chips) {  // each is reported
            GraphTracker::instance().track_allocate_cb(cores, global ? 1000000 : at, size, global, chip.get());
        }
        at += global ? 0 : size;
    }
}
void ProgramImpl::allocate_dataflow_buffers(const IDevice*) {
    if (dfbs_placed) {
        return;
    }
    dfbs_placed = true;
    CircularBufferAllocator left{{{spec.x, spec.y}, {spec.x, spec.y_end}}, 0};
    CircularBufferAllocator right{{{spec.x + 1, spec.y}, {spec.x_end, spec.y_end}}, 0};
    uint64_t at = fake::kL1Base + 100000;
    for (uint32_t i = 0; i < spec.dfbs; i++) {
        left.mark_address(at, 512 * (i + 1), fake::kL1Base);
        if (spec.x_end > spec.x) {
            right.mark_address(at, 512 * (i + 1), fake::kL1Base);
        }
        at += 512 * (i + 1);
    }
}
void ProgramImpl::allocate_scratchpads(const IDevice*) {
    if (spec.kernels > 0) {
        auto& words = kernels[0][0]->words;
        for (uint32_t i = 0; words.size() < spec.scratchpads; i++) {
            words.push_back(static_cast<uint32_t>(fake::kL1Base + 200000 + 1024 * i));
        }
    }
}

}  // namespace detail
}  // namespace tt_metal
}  // namespace tt

namespace {

using namespace tt::tt_metal;
using namespace tt::tt_metal::distributed;

Buffer* buffer_of(void* pointer) { return static_cast<Buffer*>(pointer); }
IDevice* device_of(void* pointer) { return static_cast<IDevice*>(pointer); }
MeshDevice* mesh_of(void* pointer) { return static_cast<MeshDevice*>(device_of(pointer)); }

void* open(uint32_t rows, uint32_t columns, uint32_t first_chip) {
    auto* mesh = new MeshDevice(rows, columns, first_chip);
    const uint32_t banks[2] = {4, 5};
    if (!mesh->impl->initialize_impl(mesh, 1, 32768, 90112, 7, banks, true)) {
        throw std::logic_error("an argument of initialize_impl was changed on its way");
    }
    return static_cast<IDevice*>(mesh);
}
void close(void* pointer) {
    MeshDevice* mesh = mesh_of(pointer);
    if (!mesh->impl->close_impl(mesh) || mesh->impl->close_impl(mesh)) {
        throw std::logic_error("a result of close_impl was changed on its way");
    }
    delete mesh;
}
uint32_t mesh_id(void* mesh) { return static_cast<uint32_t>(mesh_of(mesh)->id_); }
void* chip(void* mesh, uint32_t index) { return static_cast<IDevice*>(mesh_of(mesh)->chips.at(index).get()); }
void* allocate(void* device, uint32_t type, uint64_t size, uint32_t layout, uint32_t cores) {
    return new_buffer(device_of(device), static_cast<BufferType>(type), size, layout, cores);
}
void* allocate_per_core(void* device, uint64_t size, uint32_t first_core, uint32_t cores) {
    return new_buffer(device_of(device), BufferType::L1, size, 2, cores, first_core);
}
uint64_t address(void* buffer) { return buffer_of(buffer)->address_; }
void free_buffer(void* buffer) {
    buffer_of(buffer)->allocator->deallocate_buffer(buffer_of(buffer));
    delete buffer_of(buffer);
}
void abandon(void* buffer) { delete buffer_of(buffer); }
void free_all(void* device) { device_of(device)->own_allocator()->deallocate_buffers(); }
void clear_cache(void* mesh) { mesh_of(mesh)->clear_program_cache(); }
void* make_workload() { return new MeshWorkload; }
uint64_t add_program(void* workload, const fake::ProgramSpec* spec) {
    Program program(*spec);
    uint64_t id = program.internal->id;
    MeshCoordinateRange range{{{0, 0}}, {{spec->rows - 1, spec->columns - 1}}};
    static_cast<MeshWorkload*>(workload)->impl->add_program(range, std::move(program));
    return id;
}
void run(void* mesh, void* workload) {
    MeshCommandQueue queue{mesh_of(mesh)};
    EnqueueMeshWorkload(queue, *static_cast<MeshWorkload*>(workload), true);
}
uint64_t binary_address(void* workload) {
    auto& binary = static_cast<MeshWorkload*>(workload)->impl->binary;
    return binary == nullptr ? 0 : binary->address_;
}
void destroy_workload(void* workload) { delete static_cast<MeshWorkload*>(workload); }
uint64_t buffer_count(void* device) { return device_of(device)->own_allocator()->get_num_allocated_buffers(); }

const fake::Api kApi = {
    open,        close,          mesh_id,          chip,         allocate,          address,
    free_buffer, abandon,        free_all,         clear_cache,  make_workload,     add_program,
    run,         binary_address, destroy_workload, buffer_count, allocate_per_core,
};

}  // namespace

extern "C" const fake::Api* fake_api() { return &kApi; }

extern "C" void fake_run_from_outside(void* mesh, void* workload, void (*enqueue)(void*, void*, bool)) {
    MeshCommandQueue queue{mesh_of(mesh)};
    enqueue(&queue, workload, true);
}
