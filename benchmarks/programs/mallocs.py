# SPDX-License-Identifier: Apache-2.0
"""Allocates and frees host memory so many times: 2,000 blocks of different sizes, replaced at random."""

import random
import sys

chance = random.Random(1)
live = [bytes(chance.randrange(1024, 65_536)) for _ in range(2000)]  # too large for Python's own allocator
for _ in range((int(sys.argv[1]) - len(live)) // 2):
    place = chance.randrange(len(live))
    live[place] = b""  # freed before the next one is allocated
    live[place] = bytes(chance.randrange(1024, 65_536))
