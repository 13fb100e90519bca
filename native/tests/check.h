// SPDX-License-Identifier: Apache-2.0
// A check that prints where it failed, also in a build without assert.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(truth)                                                              \
    do {                                                                          \
        if (!(truth)) {                                                           \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #truth); \
            std::exit(1);                                                         \
        }                                                                         \
    } while (false)
