// SPDX-License-Identifier: Apache-2.0
// What every function of libttmem_fit.so uses: the function that it stands in front of, and the report.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TTMEM_EXPORT extern "C" __attribute__((visibility("default")))
#define TTMEM_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

namespace ttmem_fit {

// Appends a line to the report. Lines are short, so that two processes never mix theirs.
inline void report(const char* what, unsigned long number = 0) {
    const char* path = getenv("TTMEM_FIT_REPORT");
    const int file = path == nullptr ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        return;
    }
    char line[160];
    const int length = snprintf(line, sizeof line, "%d %s %lu\n", static_cast<int>(getpid()), what, number);
    if (length > 0 && write(file, line, static_cast<size_t>(length)) < 0) {
        // The run goes on: the answer lacks this line.
    }
    close(file);
}

// The function behind one of ours: the agent's, which is loaded after this library, or tt-metal's own. tt-metal is not
// in the global scope of a Python process, so it is looked up from the library that called.
template <typename Function>
Function next(const char* symbol, void* caller, void* scope = RTLD_NEXT) {
    void* found = dlsym(scope, symbol);
    Dl_info info;
    if (found == nullptr && dladdr(caller, &info) != 0) {
        void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        found = library == nullptr ? nullptr : dlsym(library, symbol);
        if (library != nullptr) {
            dlclose(library);
        }
    }
    if (found == nullptr) {
        fprintf(stderr, "ttmem fit: the real %s cannot be found\n", symbol);
        abort();
    }
    return reinterpret_cast<Function>(found);
}

}  // namespace ttmem_fit
