# SPDX-License-Identifier: Apache-2.0
"""A C++ program with the legacy records works unchanged with `ttmem serve`, in every record size."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import LegacyClient, Server, not_none, wait_until

Legacy = Callable[..., LegacyClient]
MIB = 1 << 20


@pytest.mark.parametrize("size", [72, 112, 128, 144])
def test_counters_come_back_in_the_askers_size_and_field_order(server: Server, legacy: Legacy, size: int) -> None:
    client = legacy(server, size=size)
    client.say(
        f"alloc 0 {3 * MIB} 0 0x100000", f"alloc 0 {2 * MIB} 1 0x100000", f"alloc 0 {MIB} 3 0x170000",
        f"alloc 0 {5 * MIB} 4 0x500000", f"alloc 0 {7 * MIB} 2 0x7000", "cb_alloc 0 4096 0x19d60",
        "kernel_load 0 57344 1 0x7f0000001000", "kernel_load 0 1000 0 77",
    )  # fmt: skip
    answer = client.query(0)
    want = {"device": 0, "dram": 3 * MIB, "l1": 2 * MIB, "l1_small": MIB, "trace": 5 * MIB, "bytes": size}
    if size >= 128:
        want |= {"cb": 4096, "kernel": 58344}
    assert answer == want
    client.say("free 0 0x170000", "free 0 0x500000", "cb_free 0 0 0x19d60", "kernel_unload 0 0 0x7f0000001000")
    want |= {"l1_small": 0, "trace": 0} | ({"cb": 0, "kernel": 1000} if size >= 128 else {})
    assert client.query(0) == want
    assert client.query(31) == dict.fromkeys(want, 0) | {"device": 31, "bytes": size}
    memory = server.chip()
    assert memory["host"]["used"] == 7 * MIB  # SYSTEM_MEMORY is not L1_SMALL
    assert memory["l1"]["kernels"] == 1000


def test_the_32_byte_form(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say("short_cb_alloc 2 8192 0", "short_cb_alloc 2 4096 5", "short_kernel_load 2 1000 0x900000003")
    client.say("alloc 2 64 0 0x1000", "short_kernel_load 2 1000 0x900000003", "short_cb_free 2 0 5")
    answer = client.query(2)
    assert (answer["cb"], answer["kernel"], answer["dram"]) == (8192, 1000, 64)
    assert server.snapshot()["anomalies"]["rejected"] == 0


@pytest.mark.parametrize("size", [112, 128, 144])
def test_device_info_of_chips_known_only_from_events(server: Server, legacy: Legacy, size: int) -> None:
    client = legacy(server, size=size)
    assert client.info(-1)["num_devices"] == 0
    client.say("alloc 3 4096 0 0x1000", "cb_alloc 3 512 1", "kernel_load 3 256 0 1")
    assert client.query(3)["dram"] == 4096
    count = client.info(-1)
    assert (count["num_devices"], count["is_available"], count["bytes"]) == (4, 1, size)
    info = client.info(3)
    assert info["is_available"] == 1
    assert info["total_dram_size"] == info["total_l1_size"] == 0  # unknown, and not invented
    if size >= 128:
        assert (info["cb"], info["kernel"]) == (512, 256)
    assert client.info(200)["is_available"] == 0


def test_records_of_different_sizes_on_one_connection(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    for number, size in enumerate((72, 144, 112, 128, 72, 112, 144)):
        client.say(f"size {size}", f"alloc 0 100 0 {0x1000 + number * 64}")
        assert client.query(0)["dram"] == 100 * (number + 1)
    assert client.ask("pending") == "pending bytes=0"


def test_dumps_are_printed_and_not_answered(serve: Callable[..., Server], legacy: Legacy) -> None:
    server = serve()
    client = legacy(server)
    client.say("alloc 0 1048576 1 0x1000", "kernel_load 0 57344 1 9", "dump", "dump_kernels")
    client.query(0)
    text = wait_until(lambda: (t := server.log.read_text()).count("complete.") == 2 and t, "the dumps")
    assert "REMAINING ALLOCATED BUFFERS" in text
    assert f"    - Buffer 0x1000: 1024 KB (PID {client.pid}, ref_count=1)" in text
    assert "DETAILED KERNEL ALLOCATIONS" in text
    assert "    - Kernel 0x9: Fabric, 56 KB" in text
    assert client.ask("pending") == "pending bytes=0"


def test_a_burst_is_counted_to_the_last_record(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say("burst 50000 0 4096 0 0x100000 4096")
    assert client.query(0)["dram"] == 50000 * 4096
    assert server.get("/allocations?limit=1")["matched"] == 50000


def test_references_replacement_and_surplus_frees(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say("alloc 0 100 0 0x1000", "alloc 0 100 0 0x1000", "free 0 0x1000")
    assert client.query(0)["dram"] == 100  # two references, one freed
    client.say("alloc 0 200 0 0x1000")
    assert client.query(0)["dram"] == 200  # another size: replaced
    client.say("free 0 0x1000", "free 0 0x1000", "free 0 0x9999", "cb_free 0 4096 1", "kernel_unload 0 4096 1")
    assert set(client.query(0).values()) == {0, 144}
    odd = not_none(server.process_of(client.pid))["anomalies"]
    assert (odd["replaced"], odd["double_free"], odd["unknown_free"]) == (1, 1, 3)


def test_a_mesh_buffer_freed_twice_on_device_0_stays_on_device_3(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say("alloc 0 4096 0 0x1000", "alloc 3 4096 0 0x1000", "free 0 0x1000", "free 0 0x1000")
    assert client.query(0)["dram"] == 0
    assert client.query(3)["dram"] == 4096
    assert not_none(server.process_of(client.pid))["anomalies"]["double_free"] == 1


def test_a_client_that_frees_everything_on_device_0(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say(
        "alloc 0 4096 0 0x1000", "alloc 2 4096 0 0x2000", "alloc 3 4096 1 0x3000", "free 0 0x2000", "free 0 0x3000"
    )
    assert (client.query(2)["dram"], client.query(3)["l1"]) == (0, 0)
    assert not_none(server.process_of(client.pid))["anomalies"]["misrouted"] == 2


def test_per_core_writes_are_what_their_address_says(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say(
        "alloc 0 1000 1 0x0005000300000100", "alloc 0 2000 1 0x0005000300005000", "alloc 0 3000 1 0x0005000300010000"
    )
    client.say("alloc 0 4000 1 0x00050003000a0000", "alloc 0 5000 1 0x7f3200001000")
    assert client.query(0)["kernel"] == 3000
    memory = server.chip()["l1"]
    assert (memory["firmware"], memory["kernels"], memory["buffers"]) == (3000, 3000, 9000)
    dump = server.text("/dump?format=text")
    assert "core (5,3) at 0x100: launch message" in dump
    assert "core (5,3) at 0x10000: kernel" in dump


def test_bad_values_are_counted_and_named_once(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say("alloc -1 100 0 1", "alloc -1 100 0 1", "alloc 0 0 0 1", f"alloc 0 {200 << 30} 0 1", "alloc 0 100 7 1")
    client.say("kernel_load 0 100 9 1", "alloc 0 100 0 0x1000")
    assert client.query(0)["dram"] == 100
    assert not_none(server.process_of(client.pid))["anomalies"]["rejected"] == 6
    complaints = server.err.read_text()
    for text in ("Invalid device_id -1 - ignoring message", "Invalid size 0", "Invalid buffer_type 7", "kernel type 9"):
        assert complaints.count(text) == 1, complaints
    assert "Traceback" not in complaints
