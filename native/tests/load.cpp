// SPDX-License-Identifier: Apache-2.0
// The library loads, and belongs to the version it was built for.

#include <cstdio>
#include <cstring>

extern "C" const char* ttmem_agent_version();

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: load VERSION\n");
        return 2;
    }
    if (std::strcmp(ttmem_agent_version(), arguments[1]) != 0) {
        std::fprintf(stderr, "ttmem_agent_version is %s, not %s\n", ttmem_agent_version(), arguments[1]);
        return 1;
    }
    return 0;
}
