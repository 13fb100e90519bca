// SPDX-License-Identifier: Apache-2.0
#include "program_parts.h"

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "metal_objects.h"

namespace ttmem {

namespace {

constexpr uint32_t kCoreTypes = 3;  // Tensix, active and idle ethernet

using Kernels = std::unordered_map<uint32_t, std::shared_ptr<void>>;
struct Opaque;  // an argument that is handed on unread

// How many binaries a kernel has, by its class; 0 for an unknown class.
int binaries(const Metal& metal, void* kernel) {
    const char* table = *static_cast<const char**>(kernel) - 16;
    if (table == metal.calls[kCall_compute_vtable]) {
        return 3;
    }
    return table == metal.calls[kCall_data_vtable] || table == metal.calls[kCall_ethernet_vtable] ? 1 : 0;
}

const char* class_of(const Metal& metal, void* kernel) {
    const char* table = *static_cast<const char**>(kernel) - 16;
    return table == metal.calls[kCall_compute_vtable] ? "compute"
           : table == metal.calls[kCall_data_vtable]  ? "data movement"
                                                      : "ethernet";
}

Cores cores_of(const Metal& metal, void* kernel) {
    Cores cores;
    for (uint64_t y = 0; y < Cores::kRows; y++) {
        for (uint64_t x = 0; x < 32; x++) {
            uint64_t core[2] = {x, y};
            if (metal.call<bool>(kCall_kernel_on_core, kernel, static_cast<const uint64_t*>(core))) {
                cores.add(x, y);
            }
        }
    }
    return cores;
}

bool outside(const Cores& cores, const Cores& grid) {
    if (grid.count() == 0) {
        return false;  // not known
    }
    for (uint32_t y = 0; y < Cores::kRows; y++) {
        if ((cores.rows[y] & ~grid.rows[y]) != 0) {
            return true;
        }
    }
    return false;
}

uint32_t core_types(void* device) {
    uint32_t arch = virtual_call(device, kArch);
    return arch == 2 || arch == 3 ? kCoreTypes : 1;
}

// Kernels that bind to the same scratchpad share it: parts with the same address, size and name are one.
std::vector<ProgramPart> merged(const std::vector<ProgramPart>& parts) {
    std::vector<ProgramPart> distinct;
    for (const ProgramPart& part : parts) {
        bool known = false;
        for (ProgramPart& other : distinct) {
            if (other.address == part.address && other.per_core == part.per_core && other.name == part.name) {
                other.cores.merge(part.cores);
                known = true;
            }
        }
        if (!known) {
            distinct.push_back(part);
        }
    }
    return distinct;
}

}  // namespace

std::vector<ProgramPart> scratchpads_of(const Metal& metal, Store& store, void* program) {
    std::vector<ProgramPart> parts;
    const Kernels& kernels = *metal.call<const Kernels*>(kCall_program_kernels, program, kTensix);
    for (const auto& [_, kernel] : kernels) {
        void* self = kernel.get();
        const auto& words = *metal.call<const std::vector<uint32_t>*>(kCall_kernel_args, self);
        auto found = [&](const std::string& name, uint32_t size, uint32_t word) {
            if (size > 0 && word < words.size()) {
                Locked held(store.lock);
                uint32_t blob = store.blob(name.data(), static_cast<uint32_t>(name.size()));
                parts.push_back({Kind::kScratchpad, 0, words[word], size, {}, blob});
            }
        };
        size_t before = parts.size();
        if (metal.calls[kCall_kernel_scratchpads] == metal.calls[kCall_kernel_scratchpads_older]) {  // before 0.80
            std::function<void(const std::string&, uint32_t, uint32_t)> each = found;
            metal.call<void>(kCall_kernel_scratchpads_older, self, &each);
        } else {
            std::function<void(const std::string&, uint32_t, uint32_t, const Opaque&)> each =
                [&](const std::string& name, uint32_t size, uint32_t word, const Opaque&) { found(name, size, word); };
            metal.call<void>(kCall_kernel_scratchpads, self, &each);
        }
        if (parts.size() > before) {
            Cores cores = cores_of(metal, self);
            for (size_t i = before; i < parts.size(); i++) {
                parts[i].cores = cores;
            }
        }
    }
    return merged(parts);
}

ProgramKernels kernels_of(const Metal& metal, Store& store, void* program, void* device, const Cores& grid) {
    ProgramKernels found;
    for (uint32_t type = 0; type < core_types(device); type++) {
        const Kernels& kernels = *metal.call<const Kernels*>(kCall_program_kernels, program, type);
        for (const auto& [id, kernel] : kernels) {
            void* self = kernel.get();
            int count = binaries(metal, self);
            std::string name = metal.copy_of<std::string>(kCall_kernel_name, self);
            ProgramPart part{Kind::kKernel, 0, uint64_t{type} << 32 | id, 0, cores_of(metal, self), 0};
            char text[512];
            int used = std::snprintf(text, sizeof(text), "%.380s\t%s\t", name.c_str(), class_of(metal, self));
            for (int i = 0; i < count; i++) {
                uint32_t bytes = metal.call<uint32_t>(kCall_kernel_packed, self, device, i);
                part.per_core += bytes;
                used += std::snprintf(text + used, sizeof(text) - static_cast<size_t>(used), "%s%u", i > 0 ? "," : "",
                                      bytes);
            }
            if (type != kTensix) {
                part.kind = Kind::kFabricKernel;
            } else {
                part.kind =
                    name.rfind("cq_", 0) == 0 || outside(part.cores, grid) ? Kind::kDispatchKernel : Kind::kKernel;
                found.cores.merge(part.cores);
            }
            Locked held(store.lock);
            part.name = store.text(text);
            if (part.per_core > 0) {
                found.parts.push_back(part);
            }
        }
    }
    return found;
}

}  // namespace ttmem
