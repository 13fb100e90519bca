// SPDX-License-Identifier: Apache-2.0
// The library loads, and belongs to the version it was built for.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: load LIBRARY VERSION\n");
        return 2;
    }
    void* agent = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (agent == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    auto* version = reinterpret_cast<const char* (*)()>(dlsym(agent, "ttmem_agent_version"));
    if (version == nullptr || std::strcmp(version(), arguments[2]) != 0) {
        std::fprintf(stderr, "ttmem_agent_version is %s, not %s\n", version ? version() : "missing", arguments[2]);
        return 1;
    }
    return 0;
}
