# SPDX-License-Identifier: Apache-2.0
"""Report the allocations of your own runtime. Needs a server (`ttmem serve`), but not ttnn.

ttmem serve &
TT_ALLOC_TRACKING_ENABLED=1 python examples/own_tracker.py
ttmem smi                                            while it waits for Enter
"""

import sys

from ttmem import AllocationClient


class Arena:
    """A toy allocator for the DRAM of one device, which reports its allocations."""

    def __init__(self, client: AllocationClient, device: int) -> None:
        self._client = client
        self._device = device
        self._next = 0x1000

    def allocate(self, size: int, tag: str) -> int:
        address, self._next = self._next, self._next + size
        self._client.report_allocation(
            device_id=self._device, size=size, buffer_type="dram", buffer_id=address, tag=tag
        )
        return address

    def free(self, address: int) -> None:
        self._client.report_deallocation(device_id=self._device, buffer_id=address, buffer_type="dram")


client = AllocationClient()  # reports only if TT_ALLOC_TRACKING_ENABLED is 1; never blocks, never raises
arena = Arena(client, device=0)
weights = arena.allocate(64 << 20, "weights")
cache = [arena.allocate(4 << 20, "kv cache") for _ in range(8)]
arena.free(cache.pop())

client.flush()
print("reported; press Enter to end", flush=True)
sys.stdin.readline()
client.close()
