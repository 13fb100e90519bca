// SPDX-License-Identifier: Apache-2.0
// `ttmem fit --fake-weights`: turning the values of a large tensor into tiles on the host gives zeros, at once.
//
// Only these two steps are replaced. What ttnn allocates on the host and on the devices, what it tilizes on the device,
// and how a mesh mapper divides a tensor are its own code, so allocations are the same as with real values.
#include <stdint.h>
#include <string.h>

#include <array>
#include <atomic>
#include <optional>

#include "real_functions.h"

namespace {

using ttmem_fit::next;
using ttmem_fit::report;

constexpr size_t kTile = 32;
constexpr size_t kTileElements = kTile * kTile;
constexpr size_t kLeastElements = 1 << 16;  // smaller tensors are tilized: that is quick, and their values are right
constexpr int kRows = 0, kTiles = 2;        // of tt-metal's TensorLayoutType: rows of a matrix; tiles of faces

struct Span {
    const void* data;
    size_t size;  // elements
};

// The members of a std::vector of libstdc++. A function returns both in the same way.
template <typename Element>
struct Vector {
    Element* begin;
    Element* end;
    Element* capacity;
};

using Sides = std::array<uint32_t, 2>;  // of a matrix, a tile or a face

template <typename Element>
using Tilize = Vector<Element> (*)(Span, const Sides*, int, int, std::optional<Sides>, std::optional<Sides>, bool,
                                   bool);
using Pack = Vector<uint32_t> (*)(Span, bool, bool, const void*);

bool fake() {
    static const bool asked = getenv("TTMEM_FIT_FAKE_WEIGHTS") != nullptr;
    return asked;
}

void tell() {
    static std::atomic<bool> reported{false};
    if (!reported.exchange(true)) {
        report("weights");
    }
}

// Zeros, allocated as tt-metal would do it, because it frees them: with the operator of any library of the user.
template <typename Element>
Vector<Element> zeros(size_t count, void* caller) {
    static const auto allocate = next<void* (*)(size_t)>("_Znwm", caller, RTLD_DEFAULT);
    auto* const begin = static_cast<Element*>(allocate(count * sizeof(Element)));
    memset(begin, 0, count * sizeof(Element));
    return {begin, begin + count, begin + count};
}

void release(void* begin, void* caller) {
    static const auto free_it = next<void (*)(void*)>("_ZdlPv", caller, RTLD_DEFAULT);
    free_it(begin);
}

bool is_usual_tile(const std::optional<Sides>& tile) { return !tile || ((*tile)[0] == kTile && (*tile)[1] == kTile); }

// tt-metal refuses a matrix whose sides are not multiples of the tile: that stays its decision.
bool is_whole(size_t count, const Sides& matrix) {
    const size_t elements = static_cast<size_t>(matrix[0]) * matrix[1];
    return elements != 0 && matrix[0] % kTile == 0 && matrix[1] % kTile == 0 && count % elements == 0;
}

}  // namespace

#define TTMEM_TILES(name, element, symbol)                                                                         \
    TTMEM_EXPORT Vector<element> ttmem_fit_tiles_##name(Span, const Sides*, int, int, std::optional<Sides>,        \
                                                        std::optional<Sides>, bool, bool) __asm__(symbol);         \
    Vector<element> ttmem_fit_tiles_##name(Span values, const Sides* matrix, int from, int to,                     \
                                           std::optional<Sides> tile, std::optional<Sides> face, bool within_face, \
                                           bool of_faces) {                                                        \
        static const auto real = next<Tilize<element>>(symbol, TTMEM_CALLER);                                      \
        if (fake() && from == kRows && to == kTiles && values.size >= kLeastElements && is_usual_tile(tile) &&     \
            is_whole(values.size, *matrix)) {                                                                      \
            tell();                                                                                                \
            return zeros<element>(values.size, TTMEM_CALLER);                                                      \
        }                                                                                                          \
        return real(values, matrix, from, to, tile, face, within_face, of_faces);                                  \
    }

// How many words a tile has is asked with the first one: it depends on the format.
#define TTMEM_BLOCKS(name, element, symbol)                                                                        \
    TTMEM_EXPORT Vector<uint32_t> ttmem_fit_blocks_##name(Span, bool, bool, const void*) __asm__(symbol);          \
    Vector<uint32_t> ttmem_fit_blocks_##name(Span values, bool in_rows, bool exponent_a, const void* tile) {       \
        static const auto real = next<Pack>(symbol, TTMEM_CALLER);                                                 \
        if (fake() && values.size >= kLeastElements && values.size % kTileElements == 0) {                         \
            const Vector<uint32_t> first = real({values.data, kTileElements}, in_rows, exponent_a, tile);          \
            const auto words = static_cast<size_t>(first.end - first.begin);                                       \
            release(first.begin, TTMEM_CALLER);                                                                    \
            tell();                                                                                                \
            return zeros<uint32_t>(values.size / kTileElements * words, TTMEM_CALLER);                             \
        }                                                                                                          \
        return real(values, in_rows, exponent_a, tile);                                                            \
    }

#include "weights.def"
