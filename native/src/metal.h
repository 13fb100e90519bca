// SPDX-License-Identifier: Apache-2.0
// The functions of libtt_metal.so that the agent calls or stands in for, found by name in the copy a caller uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "layout.h"

namespace ttmem {

// Functions the agent stands in for. Their order is that of the bits in Metal::called.
#define TTMEM_HOOKS(X)                                                                                                \
    X(allocate_buffer, "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE")                               \
    X(deallocate_buffer, "_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE")                           \
    X(deallocate_buffers, "_ZN2tt8tt_metal13AllocatorImpl18deallocate_buffersEv")                                     \
    X(clear, "_ZN2tt8tt_metal13AllocatorImpl5clearEv")                                                                \
    X(allocator_gone, "_ZN2tt8tt_metal13AllocatorImplD2Ev")                                                           \
    X(allocator_gone_whole, "_ZN2tt8tt_metal13AllocatorImplD1Ev")                                                     \
    X(mesh_open, "_ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_implEPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb") \
    X(mesh_close, "_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE")                      \
    X(compile, "_ZN2tt8tt_metal6detail11ProgramImpl7compileEPNS0_7IDeviceEb")                                         \
    X(allocate_cbs, "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_circular_buffersEPKNS0_7IDeviceE")                 \
    X(allocate_dfbs, "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_dataflow_buffersEPKNS0_7IDeviceE")                \
    X(allocate_scratchpads, "_ZN2tt8tt_metal6detail11ProgramImpl20allocate_scratchpadsEPKNS0_7IDeviceE")              \
    X(cb_placed, "_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE")          \
    X(dfb_placed, "_ZN2tt8tt_metal6detail11ProgramImpl23CircularBufferAllocator12mark_addressEmmm")                   \
    X(program_gone, "_ZN2tt8tt_metal6detail11ProgramImplD1Ev")                                                        \
    X(add_program, "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl11add_programERKNS1_19MeshCoordinateRangeEONS0_7ProgramE") \
    X(workload_gone, "_ZN2tt8tt_metal11distributed16MeshWorkloadImplD1Ev")                                            \
    X(load_binaries, "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl13load_binariesERNS1_16MeshCommandQueueE")        \
    X(enqueue, "_ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb")     \
    X(clear_cache, "_ZN2tt8tt_metal11distributed10MeshDevice19clear_program_cacheEv")                                 \
    X(compile_workload, "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl7compileEPNS1_10MeshDeviceE")                  \
    X(finalize_workload, "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl16finalize_offsetsEPNS1_10MeshDeviceE")       \
    X(fill_trace, "_ZN2tt8tt_metal11distributed9MeshTrace20populate_mesh_bufferERNS1_16MeshCommandQueueERSt10shared_ptrINS1_15MeshTraceBufferEEmmm")

// Functions the agent only calls. None of them throws as it is used here.
#define TTMEM_CALLS(X)                                                                                                \
    X(buffer_size, "_ZNK2tt8tt_metal6Buffer4sizeEv")                                                                  \
    X(buffer_type, "_ZNK2tt8tt_metal6Buffer11buffer_typeEv")                                                          \
    X(buffer_layout, "_ZNK2tt8tt_metal6Buffer13buffer_layoutEv")                                                      \
    X(buffer_device, "_ZNK2tt8tt_metal6Buffer6deviceEv")                                                              \
    X(buffer_address, "_ZNK2tt8tt_metal6Buffer7addressEv")                                                            \
    X(buffer_per_bank, "_ZNK2tt8tt_metal6Buffer21aligned_size_per_bankEv")                                            \
    X(buffer_page, "_ZNK2tt8tt_metal6Buffer17aligned_page_sizeEv")                                                    \
    X(buffer_cores, "_ZNK2tt8tt_metal6Buffer9num_coresEv")                                                            \
    X(buffer_per_core, "_ZN2tt8tt_metal12experimental19per_core_allocation22is_per_core_allocationERKNS0_6BufferE")   \
    X(alignment, "_ZNK2tt8tt_metal13AllocatorImpl13get_alignmentENS0_10BufferTypeE")                                  \
    X(num_banks, "_ZNK2tt8tt_metal13AllocatorImpl13get_num_banksERKNS0_10BufferTypeE")                                \
    X(bank_size, "_ZNK2tt8tt_metal13AllocatorImpl13get_bank_sizeERKNS0_10BufferTypeE")                                \
    X(base_address, "_ZNK2tt8tt_metal13AllocatorImpl23get_base_allocator_addrERKNS0_10HalMemTypeE")                   \
    X(max_unreserved, "_ZN2tt8tt_metal3hal33get_max_worker_l1_unreserved_sizeEv")                                     \
    X(core_ranges, "_ZNK2tt8tt_metal12CoreRangeSet6rangesEv")                                                         \
    X(statistics, "_ZNK2tt8tt_metal13AllocatorImpl14get_statisticsERKNS0_10BufferTypeE")                              \
    X(num_buffers, "_ZNK2tt8tt_metal13AllocatorImpl25get_num_allocated_buffersEv")                                    \
    X(has_bank, "_ZNK2tt8tt_metal13AllocatorImpl8has_bankENS0_10BufferTypeERKNS_7xy_pairE")                           \
    X(mesh_id, "_ZNK2tt8tt_metal11distributed10MeshDevice2idEv")                                                      \
    X(mesh_devices, "_ZNK2tt8tt_metal11distributed10MeshDevice11get_devicesEv")                                       \
    X(mesh_rows, "_ZNK2tt8tt_metal11distributed10MeshDevice8num_rowsEv")                                              \
    X(mesh_columns, "_ZNK2tt8tt_metal11distributed10MeshDevice8num_colsEv")                                           \
    X(mesh_allocator, "_ZNK2tt8tt_metal11distributed10MeshDevice14allocator_implEv")                                  \
    X(mesh_arch, "_ZNK2tt8tt_metal11distributed10MeshDevice4archEv")                                                  \
    X(chip_allocator, "_ZNK2tt8tt_metal6Device14allocator_implEv")                                                    \
    X(mesh_vtable, "_ZTVN2tt8tt_metal11distributed10MeshDeviceE")                                                     \
    X(range_start, "_ZNK2tt8tt_metal11distributed19MeshCoordinateRange11start_coordEv")                               \
    X(range_end, "_ZNK2tt8tt_metal11distributed19MeshCoordinateRange9end_coordEv")                                    \
    X(coordinates, "_ZNK2tt8tt_metal11distributed14MeshCoordinate6coordsEv")                                          \
    X(program_id, "_ZNK2tt8tt_metal6detail11ProgramImpl6get_idEv")                                                    \
    X(program_kernels, "_ZN2tt8tt_metal6detail11ProgramImpl11get_kernelsEj")                                          \
    X(program_ring, "_ZN2tt8tt_metal6detail11ProgramImpl23get_program_config_sizeEj")                                 \
    X(kernel_name, "_ZNK2tt8tt_metal6Kernel4nameB5cxx11Ev")                                                           \
    X(kernel_on_core, "_ZNK2tt8tt_metal6Kernel18is_on_logical_coreERKNS_7xy_pairE")                                   \
    X(kernel_packed, "_ZNK2tt8tt_metal6Kernel22get_binary_packed_sizeEPNS0_7IDeviceEi")                               \
    X(kernel_args, "_ZN2tt8tt_metal6Kernel19common_runtime_argsEv")                                                   \
    X(kernel_scratchpads, "_ZNK2tt8tt_metal6Kernel34process_scratchpad_binding_handlesERKSt8functionIFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEjjRKSt8optionalINS0_11LLKMetadataEEEE") \
    X(compute_vtable, "_ZTVN2tt8tt_metal13ComputeKernelE")                                                            \
    X(data_vtable, "_ZTVN2tt8tt_metal18DataMovementKernelE")                                                          \
    X(ethernet_vtable, "_ZTVN2tt8tt_metal14EthernetKernelE")                                                          \
    X(context_exists, "_ZN2tt8tt_metal12MetalContext15instance_existsEN4ttsl10StrongTypeIiNS0_12ContextIdTagEEE")     \
    X(context, "_ZN2tt8tt_metal12MetalContext8instanceEN4ttsl10StrongTypeIiNS0_12ContextIdTagEEE")                    \
    X(cluster, "_ZN2tt8tt_metal12MetalContext11get_clusterEv")                                                        \
    X(cluster_descriptor, "_ZNK2tt7Cluster16get_cluster_descEv")                                                      \
    X(board_type, "_ZNK2tt7Cluster14get_board_typeEi")                                                                \
    X(unique_ids, "_ZNK2tt3umd17ClusterDescriptor19get_chip_unique_idsEv")                                            \
    X(chip_remote, "_ZNK2tt3umd17ClusterDescriptor14is_chip_remoteEi")

// Functions it calls where a wheel lacks some of those above: see older.cpp.
#define TTMEM_OLDER(X)                                                                                                \
    X(buffer_within, "_ZNK2tt8tt_metal6Buffer15is_valid_regionERKNS0_12BufferRegionE")                                \
    X(buffer_is_dram, "_ZNK2tt8tt_metal6Buffer7is_dramEv")                                                            \
    X(buffer_is_l1, "_ZNK2tt8tt_metal6Buffer5is_l1Ev")                                                                \
    X(buffer_is_trace, "_ZNK2tt8tt_metal6Buffer8is_traceEv")                                                          \
    X(bank_core, "_ZNK2tt8tt_metal13AllocatorImpl29get_logical_core_from_bank_idEj")                                  \
    X(chip_vtable, "_ZTVN2tt8tt_metal6DeviceE")                                                                       \
    X(kernel_scratchpads_older, "_ZNK2tt8tt_metal6Kernel34process_scratchpad_binding_handlesESt8functionIFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEjjEE")

enum Hook : uint32_t {
#define X(name, symbol) kHook_##name,
    TTMEM_HOOKS(X)
#undef X
        kHookCount
};

enum Call : uint32_t {
#define X(name, symbol) kCall_##name,
    TTMEM_CALLS(X) TTMEM_OLDER(X)
#undef X
        kCallCount
};

constexpr int kMostCopies = 4;

// An object that a function of tt-metal returned by value. It holds memory of tt-metal's operator new, which may be
// another than ours, so it is never destroyed here: its contents are copied, and its memory is given back.
template <typename T>
struct Returned {
    union {
        T value;
    };
    ~Returned() {}
    Returned(const Returned&) = delete;
    Returned& operator=(const Returned&) = delete;
};

// One loaded copy of libtt_metal.so.
struct Metal {
    uintptr_t begin, end;  // where it lies
    uint64_t coverage;     // bit per kind that can be seen
    void* hooks[kHookCount];
    void* calls[kCallCount];
    uint64_t called;    // bit per hook: the library calls it in a way that can be stood in for
    bool odd_programs;  // older than any whose programs could be compared with what ttnn itself says of them
    void* (*exception_globals)();  // of the C++ runtime that libtt_metal throws with
    void (*operator_delete)(void*);  // the one that libtt_metal calls; nullptr if it cannot be found
    char path[256];
    char trouble[512];

    bool covers(Kind kind) const { return coverage >> static_cast<uint8_t>(kind) & 1; }
    // To be called after an exception of tt-metal's was caught and dropped. It was thrown with another copy of the
    // C++ runtime than ours, which still counts it as on its way.
    void swallowed() const noexcept;

    template <typename F>
    F real(Hook hook) const {
        return reinterpret_cast<F>(hooks[hook]);
    }
    template <typename R, typename... A>
    R call(Call call, A... arguments) const {
        return reinterpret_cast<R (*)(A...)>(calls[call])(arguments...);
    }
    bool has(Call call) const { return calls[call] != nullptr; }

    // What a function returned by value, as an object of ours.
    template <typename T, typename... A>
    T copy_of(Call which, A... arguments) const {
        auto returned = call<Returned<T>>(which, arguments...);
        T copy(returned.value);
        release(returned.value);
        return copy;
    }
    // Gives memory back that tt-metal's operator new made.
    void release(void* block) const {
        if (block != nullptr && operator_delete != nullptr) {
            operator_delete(block);
        }
    }

private:
    template <typename T>
    void release(std::vector<T>& list) const {
        release(static_cast<void*>(list.data()));
    }
    void release(std::string& text) const {
        char* object = reinterpret_cast<char*>(&text);
        bool inside = text.data() >= object && text.data() < object + sizeof(text);  // a short one
        release(inside ? nullptr : static_cast<void*>(text.data()));
    }
};

// Puts something in the place of functions that wheels before 0.80 lack, where it can be shown to be right.
void stand_in_for_missing(Metal& metal, int number) noexcept;

// Nearly always the only copy: looked at first.
extern Metal first_copy;
const Metal& other_metal_of(void* caller) noexcept;

// The copy that the code at this address belongs to or links against. Never fails: a hook that was reached has a
// real function behind it.
inline const Metal& metal_of(void* caller) noexcept {
    uintptr_t address = reinterpret_cast<uintptr_t>(caller);
    uintptr_t end = __atomic_load_n(&first_copy.end, __ATOMIC_ACQUIRE);  // 0 until it is complete
    return address < end && address >= first_copy.begin ? first_copy : other_metal_of(caller);
}

}  // namespace ttmem
