// SPDX-License-Identifier: Apache-2.0
// ttmem::Map against std::unordered_map, on random operations.
#include <algorithm>
#include <cstddef>
#include <random>
#include <unordered_map>
#include <vector>

#include "check.h"
#include "map.h"

namespace {

void compare(const ttmem::Map& map, const std::unordered_map<uint64_t, uint32_t>& model) {
    CHECK(map.size() == model.size());
    for (const auto& [key, value] : model) {
        const uint32_t* found = map.find(key);
        CHECK(found != nullptr && *found == value);
    }
    size_t visited = 0;
    map.each([&](uint64_t key, uint32_t value) {
        auto at = model.find(key);
        CHECK(at != model.end() && at->second == value);
        visited++;
    });
    CHECK(visited == model.size());
}

// Keys from a narrow range often repeat; keys in large equal steps collide if the hash function is poor.
uint64_t key_of(std::mt19937_64& random, int style) {
    switch (style) {
        case 0: return random() % 600;
        case 1: return random() % 600 << 32;
        case 2: return (random() % 600) * 4096 + (uint64_t{3} << 48);
        default: return random();
    }
}

void random_operations(uint32_t seed, int style, int most) {
    std::mt19937_64 random(seed);
    ttmem::Map map;
    std::unordered_map<uint64_t, uint32_t> model;
    std::vector<uint64_t> keys;
    for (int step = 0; step < 40000; step++) {
        uint64_t key = !keys.empty() && random() % 2 == 0 ? keys[random() % keys.size()] : key_of(random, style);
        uint32_t* found = map.find(key);
        CHECK((found != nullptr) == (model.count(key) == 1));
        if (found != nullptr && random() % 4 == 0) {
            bool added = true;
            found = map.find_or_add(key, added);
            CHECK(found != nullptr && !added && *found == model[key]);
            *found = model[key] = static_cast<uint32_t>(random());
        } else if (found != nullptr && random() % 2 == 0) {
            map.erase_found(found);
            CHECK(!map.erase(key));
            model.erase(key);
            keys.erase(std::find(keys.begin(), keys.end(), key));
        } else if (found != nullptr) {
            CHECK(map.erase(key));
            CHECK(!map.erase(key));
            model.erase(key);
            keys.erase(std::find(keys.begin(), keys.end(), key));
        } else if (static_cast<int>(model.size()) < most) {
            uint32_t value = static_cast<uint32_t>(random());
            bool added = false;
            if (random() % 2 == 0) {
                CHECK(map.insert(key, value));
            } else {
                uint32_t* fresh = map.find_or_add(key, added);
                CHECK(fresh != nullptr && added && *fresh == 0);
                *fresh = value;
            }
            model[key] = value;
            keys.push_back(key);
        }
        if (step % 997 == 0) {
            compare(map, model);
        }
    }
    compare(map, model);
}

void grows_large() {
    ttmem::Map map;
    for (uint64_t i = 0; i < 300000; i++) {
        CHECK(map.insert(i * 64, static_cast<uint32_t>(i)));
    }
    for (uint64_t i = 0; i < 300000; i += 2) {
        CHECK(map.erase(i * 64));
    }
    for (uint64_t i = 0; i < 300000; i++) {
        const uint32_t* found = map.find(i * 64);
        CHECK(i % 2 == 0 ? found == nullptr : found != nullptr && *found == i);
    }
    CHECK(map.size() == 150000);
}

}  // namespace

int main() {
    ttmem::Map empty;
    CHECK(empty.find(0) == nullptr && !empty.erase(0) && empty.size() == 0);
    CHECK(empty.insert(0, 7) && *empty.find(0) == 7);  // zero is a key like any other
    for (uint32_t seed = 1; seed <= 3; seed++) {
        for (int style = 0; style < 4; style++) {
            random_operations(seed, style, 127);
            random_operations(seed, style, 400);
        }
    }
    grows_large();
}
