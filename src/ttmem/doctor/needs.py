# SPDX-License-Identifier: Apache-2.0
"""What the agent needs of libtt_metal.so, by name: the same tables as in native/src/metal.h and metal.cpp.

A test compares the two, so that what the doctor says about a version of ttnn is what the agent would find there.
"""

from __future__ import annotations

from typing import NamedTuple

# Functions the agent stands in for: the library must have them, and call them through its linkage table.
HOOKS = {
    "allocate_buffer": "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE",
    "deallocate_buffer": "_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE",
    "deallocate_buffers": "_ZN2tt8tt_metal13AllocatorImpl18deallocate_buffersEv",
    "clear": "_ZN2tt8tt_metal13AllocatorImpl5clearEv",
    "allocator_gone": "_ZN2tt8tt_metal13AllocatorImplD2Ev",
    "allocator_gone_whole": "_ZN2tt8tt_metal13AllocatorImplD1Ev",
    "mesh_open": "_ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_implEPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb",  # noqa: E501
    "mesh_close": "_ZN2tt8tt_metal11distributed14MeshDeviceImpl10close_implEPNS1_10MeshDeviceE",
    "compile": "_ZN2tt8tt_metal6detail11ProgramImpl7compileEPNS0_7IDeviceEb",
    "allocate_cbs": "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_circular_buffersEPKNS0_7IDeviceE",
    "allocate_dfbs": "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_dataflow_buffersEPKNS0_7IDeviceE",
    "allocate_scratchpads": "_ZN2tt8tt_metal6detail11ProgramImpl20allocate_scratchpadsEPKNS0_7IDeviceE",
    "cb_placed": "_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE",
    "dfb_placed": "_ZN2tt8tt_metal6detail11ProgramImpl23CircularBufferAllocator12mark_addressEmmm",
    "program_gone": "_ZN2tt8tt_metal6detail11ProgramImplD1Ev",
    "add_program": "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl11add_programERKNS1_19MeshCoordinateRangeEONS0_7ProgramE",  # noqa: E501
    "workload_gone": "_ZN2tt8tt_metal11distributed16MeshWorkloadImplD1Ev",
    "load_binaries": "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl13load_binariesERNS1_16MeshCommandQueueE",
    "enqueue": "_ZN2tt8tt_metal11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb",
    "clear_cache": "_ZN2tt8tt_metal11distributed10MeshDevice19clear_program_cacheEv",
    "compile_workload": "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl7compileEPNS1_10MeshDeviceE",
    "finalize_workload": "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl16finalize_offsetsEPNS1_10MeshDeviceE",
    "fill_trace": "_ZN2tt8tt_metal11distributed9MeshTrace20populate_mesh_bufferERNS1_16MeshCommandQueueERSt10shared_ptrINS1_15MeshTraceBufferEEmmm",  # noqa: E501
}

# Functions it only calls.
CALLS = {
    "buffer_size": "_ZNK2tt8tt_metal6Buffer4sizeEv",
    "buffer_type": "_ZNK2tt8tt_metal6Buffer11buffer_typeEv",
    "buffer_layout": "_ZNK2tt8tt_metal6Buffer13buffer_layoutEv",
    "buffer_device": "_ZNK2tt8tt_metal6Buffer6deviceEv",
    "buffer_address": "_ZNK2tt8tt_metal6Buffer7addressEv",
    "buffer_per_bank": "_ZNK2tt8tt_metal6Buffer21aligned_size_per_bankEv",
    "buffer_page": "_ZNK2tt8tt_metal6Buffer17aligned_page_sizeEv",
    "buffer_cores": "_ZNK2tt8tt_metal6Buffer9num_coresEv",
    "buffer_per_core": "_ZN2tt8tt_metal12experimental19per_core_allocation22is_per_core_allocationERKNS0_6BufferE",
    "alignment": "_ZNK2tt8tt_metal13AllocatorImpl13get_alignmentENS0_10BufferTypeE",
    "num_banks": "_ZNK2tt8tt_metal13AllocatorImpl13get_num_banksERKNS0_10BufferTypeE",
    "bank_size": "_ZNK2tt8tt_metal13AllocatorImpl13get_bank_sizeERKNS0_10BufferTypeE",
    "base_address": "_ZNK2tt8tt_metal13AllocatorImpl23get_base_allocator_addrERKNS0_10HalMemTypeE",
    "max_unreserved": "_ZN2tt8tt_metal3hal33get_max_worker_l1_unreserved_sizeEv",
    "core_ranges": "_ZNK2tt8tt_metal12CoreRangeSet6rangesEv",
    "statistics": "_ZNK2tt8tt_metal13AllocatorImpl14get_statisticsERKNS0_10BufferTypeE",
    "num_buffers": "_ZNK2tt8tt_metal13AllocatorImpl25get_num_allocated_buffersEv",
    "has_bank": "_ZNK2tt8tt_metal13AllocatorImpl8has_bankENS0_10BufferTypeERKNS_7xy_pairE",
    "mesh_id": "_ZNK2tt8tt_metal11distributed10MeshDevice2idEv",
    "mesh_devices": "_ZNK2tt8tt_metal11distributed10MeshDevice11get_devicesEv",
    "mesh_rows": "_ZNK2tt8tt_metal11distributed10MeshDevice8num_rowsEv",
    "mesh_columns": "_ZNK2tt8tt_metal11distributed10MeshDevice8num_colsEv",
    "mesh_allocator": "_ZNK2tt8tt_metal11distributed10MeshDevice14allocator_implEv",
    "mesh_arch": "_ZNK2tt8tt_metal11distributed10MeshDevice4archEv",
    "chip_allocator": "_ZNK2tt8tt_metal6Device14allocator_implEv",
    "mesh_vtable": "_ZTVN2tt8tt_metal11distributed10MeshDeviceE",
    "range_start": "_ZNK2tt8tt_metal11distributed19MeshCoordinateRange11start_coordEv",
    "range_end": "_ZNK2tt8tt_metal11distributed19MeshCoordinateRange9end_coordEv",
    "coordinates": "_ZNK2tt8tt_metal11distributed14MeshCoordinate6coordsEv",
    "program_id": "_ZNK2tt8tt_metal6detail11ProgramImpl6get_idEv",
    "program_kernels": "_ZN2tt8tt_metal6detail11ProgramImpl11get_kernelsEj",
    "program_ring": "_ZN2tt8tt_metal6detail11ProgramImpl23get_program_config_sizeEj",
    "kernel_name": "_ZNK2tt8tt_metal6Kernel4nameB5cxx11Ev",
    "kernel_on_core": "_ZNK2tt8tt_metal6Kernel18is_on_logical_coreERKNS_7xy_pairE",
    "kernel_packed": "_ZNK2tt8tt_metal6Kernel22get_binary_packed_sizeEPNS0_7IDeviceEi",
    "kernel_args": "_ZN2tt8tt_metal6Kernel19common_runtime_argsEv",
    "kernel_scratchpads": "_ZNK2tt8tt_metal6Kernel34process_scratchpad_binding_handlesERKSt8functionIFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEjjRKSt8optionalINS0_11LLKMetadataEEEE",  # noqa: E501
    "compute_vtable": "_ZTVN2tt8tt_metal13ComputeKernelE",
    "data_vtable": "_ZTVN2tt8tt_metal18DataMovementKernelE",
    "ethernet_vtable": "_ZTVN2tt8tt_metal14EthernetKernelE",
    "context_exists": "_ZN2tt8tt_metal12MetalContext15instance_existsEN4ttsl10StrongTypeIiNS0_12ContextIdTagEEE",
    "context": "_ZN2tt8tt_metal12MetalContext8instanceEN4ttsl10StrongTypeIiNS0_12ContextIdTagEEE",
    "cluster": "_ZN2tt8tt_metal12MetalContext11get_clusterEv",
    "cluster_descriptor": "_ZNK2tt7Cluster16get_cluster_descEv",
    "board_type": "_ZNK2tt7Cluster14get_board_typeEi",
    "unique_ids": "_ZNK2tt3umd17ClusterDescriptor19get_chip_unique_idsEv",
    "chip_remote": "_ZNK2tt3umd17ClusterDescriptor14is_chip_remoteEi",
}


# Functions it calls where a wheel lacks some of those above.
OLDER = {
    "buffer_within": "_ZNK2tt8tt_metal6Buffer15is_valid_regionERKNS0_12BufferRegionE",
    "buffer_is_dram": "_ZNK2tt8tt_metal6Buffer7is_dramEv",
    "buffer_is_l1": "_ZNK2tt8tt_metal6Buffer5is_l1Ev",
    "buffer_is_trace": "_ZNK2tt8tt_metal6Buffer8is_traceEv",
    "bank_core": "_ZNK2tt8tt_metal13AllocatorImpl29get_logical_core_from_bank_idEj",
    "chip_vtable": "_ZTVN2tt8tt_metal6DeviceE",
    "kernel_scratchpads_older": "_ZNK2tt8tt_metal6Kernel34process_scratchpad_binding_handlesESt8functionIFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEjjEE",  # noqa: E501
}


class Need(NamedTuple):
    """A group of kinds, and every function without which the agent does not track it."""

    what: str
    hooks: tuple[str, ...]
    calls: tuple[str, ...]


# The first is the one everything hangs on: without buffers the agent does nothing at all.
NEEDS = (
    Need(
        "buffers",
        ("allocate_buffer", "deallocate_buffer", "deallocate_buffers", "clear", "allocator_gone", "mesh_close"),
        (
            "buffer_size",
            "buffer_type",
            "buffer_device",
            "buffer_address",
            "buffer_per_bank",
            "alignment",
            "num_banks",
            "bank_size",
            "base_address",
            "mesh_devices",
            "mesh_vtable",
            "mesh_id",
        ),
    ),
    Need(
        "circular buffers",
        ("allocate_cbs", "cb_placed", "program_gone"),
        ("program_id", "mesh_allocator", "chip_allocator", "core_ranges"),
    ),
    Need(
        "dataflow buffers",
        ("allocate_dfbs", "dfb_placed", "program_gone"),
        ("program_id", "mesh_allocator", "chip_allocator"),
    ),
    Need(
        "scratchpads",
        ("allocate_scratchpads", "program_gone"),
        (
            "program_id",
            "mesh_allocator",
            "chip_allocator",
            "program_kernels",
            "kernel_scratchpads",
            "kernel_args",
            "kernel_on_core",
        ),
    ),
    Need(
        "kernels",
        ("compile", "program_gone"),
        (
            "program_kernels",
            "kernel_name",
            "kernel_on_core",
            "kernel_packed",
            "compute_vtable",
            "data_vtable",
            "ethernet_vtable",
            "program_id",
            "mesh_allocator",
            "chip_allocator",
        ),
    ),
)

# What nobody needs for a kind to be tracked, and what is not known without it.
EXTRAS = {
    "which programs are resident now": ("enqueue",),
    "on which chips of a mesh a program is": (
        "add_program",
        "workload_gone",
        "range_start",
        "range_end",
        "coordinates",
    ),
    "which DRAM buffers hold kernel binaries": ("load_binaries",),
    "what the program cache held when it was cleared": ("clear_cache",),
    "why a program or trace was refused": ("compile_workload", "finalize_workload", "fill_trace"),
    "devices until their first buffer": ("mesh_open",),
    "the end of an allocator that is no part of another object": ("allocator_gone_whole",),
    "devices: meshes cannot be told from chips": ("mesh_arch",),
    "how tensors are sharded": ("buffer_layout", "buffer_page", "buffer_cores"),
    "which buffers have an address of their own on each core": ("buffer_per_core",),
    "whether the account is complete: the agent cannot audit itself": ("statistics", "num_buffers"),
    "the shape of meshes": ("mesh_rows", "mesh_columns"),
    "the size of the kernel ring and its use": ("max_unreserved", "program_ring"),
    "which cores have a bank": ("has_bank",),
    "chips by their unique id": ("context_exists", "context", "cluster", "cluster_descriptor", "unique_ids"),
    "boards, and which chips are remote": ("board_type", "chip_remote"),
}

# What stands in for a function that older wheels lack, as native/src/older.cpp has it, if all of these are there. The
# first group is how fields of a Buffer are read in place; the agent tries that out on a blank one before it believes.
_IN_PLACE = ("buffer_within", "buffer_is_dram", "buffer_is_l1", "buffer_is_trace", "chip_vtable", "context")
INSTEAD = {
    "buffer_size": (*_IN_PLACE, "allocate_dfbs"),
    "buffer_type": (*_IN_PLACE, "allocate_dfbs"),
    "buffer_device": (*_IN_PLACE, "allocate_dfbs"),
    "buffer_layout": (*_IN_PLACE, "allocate_dfbs", "buffer_cores"),
    "buffer_per_core": (),  # the agent goes by the device and layout of a buffer, which it needs anyway
    "has_bank": ("bank_core",),
    "kernel_scratchpads": ("kernel_scratchpads_older",),
}
IN_PLACE = ("buffer_size", "buffer_type", "buffer_device")  # all of them or none
# A wheel whose buffers are read in place and that lacks this one is older than any whose programs could be compared.
FIRST_PROGRAMS = "allocate_scratchpads"
