# SPDX-License-Identifier: Apache-2.0
"""`ttmem fit`: its answers are those of ttnn's own allocator, and it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.fits import environment, fit, script
from tests.mock.wheel import ROOT, wheel
from tests.runs import TTMEM, Bench
from tests.support import PATIENCE, wait_until
from ttmem import agent
from ttmem.account.ledger import Ledger
from ttmem.fit.mock_boards import BOARDS
from ttmem.fit.mock_environment import settings_for
from ttmem.model.events import Allocated, Event, Freed
from ttmem.model.geometry import BOARDS as TABLE
from ttmem.recording.recording_file import Recording

PROGRAMS = ROOT / "tests" / "programs"
# The names in the board table, and ttnn's names of the machines.
TABLE_NAMES = {"t3k": "n300", "galaxy": "galaxy-wormhole"}
CLUSTERS = {"galaxy": "GALAXY", "t3k": "T3K"}
DRAM_RESERVED = 1 << 20  # at the bottom of each bank, rounded up


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_what_ttnn_reports(name: str, folder: Path) -> None:
    """Also: everything that mock devices lack works, under `python -I` and with default dispatch."""
    board = BOARDS[name]
    rows, columns = (1, len(board.chips)) if len(board.chips) <= 8 else board.mesh
    out = folder / "out.json"
    program = str(PROGRAMS / "ttnn_fit_board.py")
    fitted = fit(folder, "--board", name, command=["-I", program, str(out), str(rows), str(columns)])
    found = fitted.board
    assert (fitted.code, found["verdict"]) == (0, "fits"), found
    told = json.loads(out.read_text())
    table = TABLE[TABLE_NAMES.get(name, name)]
    assert told["cluster"] == CLUSTERS.get(name, name.upper())
    assert told["chips"] == found["chips"] == len(board.chips)
    assert told["grid"] == [table.grid_x, table.grid_y]
    assert told["DRAM"]["banks"] == found["dram"]["banks"] == table.dram_banks
    assert told["L1"]["banks"] == table.cores
    region = -(-(1 << 20) // table.dram_banks // 64) * 64
    assert 0 <= table.dram_bank_size - DRAM_RESERVED - region - told["DRAM"]["size"] < 8192, "rounded"
    assert told["L1"]["size"] == table.l1_size - table.l1_base - 32768 == found["l1"]["bank_size"]
    assert (found["dram"]["bank_size"], found["dram"]["peak"]) == (told["DRAM"]["size"], told["DRAM"]["used"])
    assert found["dram"]["largest_free_min"] == told["DRAM"]["largest"]
    semaphores = 64 if len(board.chips) > 1 else 0  # of all_gather
    assert found["l1_small"] == {"declared": 32768, "needed": semaphores}
    assert found["trace"]["captured"] == 1
    assert found["trace"]["launches"] >= 2
    assert found["l1"]["operation"] in ("ttnn.softmax", "ttnn.all_gather")
    assert "ttnn_fit_board.py" in found["l1"]["line"]
    assert [note for note in found["notes"] if "Metal 2.0" in note] != [] or not board.kind.ethernet_dispatch
    # Nothing is left: no scratch folder, no files of ttnn or MPI in the working directory.
    assert os.listdir(folder / "tmp") == []
    assert sorted(os.listdir(folder)) == ["out.json", "tmp"]


# Machine, version of ttnn, seed of the program.
RANDOM = [
    ("n150", "0.81.1", 7), ("n300", "0.81.1", 21), ("t3k", "0.81.1", 3), ("galaxy", "0.81.1", 14),
    ("p100", "0.81.1", 8), ("p150", "0.81.1", 9), ("n150", "0.79.0", 26), ("n150", "0.77.0", 31), ("n150", "0.72.0", 7),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version", "seed"), RANDOM)
def test_a_random_program_has_the_numbers_of_ttmem_run(name: str, version: str, seed: int, folder: Path) -> None:
    """Verdict and peaks of DRAM and L1 are those of `ttmem run` on the same mock board, byte for byte."""
    program = str(PROGRAMS / "ttnn_random.py")
    arguments = [program, "--board", name, "--steps", "40", "--seed", str(seed), "--threads", "0"]
    found = fit(folder, "--board", name, command=arguments, version=version).board
    with Bench(folder, name, "3.10") as bench:
        ran = bench.run_command([wheel("3.10", version).python, *arguments], **settings_for(version))
    (chip, *_) = ran.data["chips"]
    assert ran.code == found["command_exit_code"] == 0
    assert found["failures"] == ran.data["failed"]
    assert found["verdict"] == ("fails" if ran.data["failed"] else "fits")
    assert ("handled it and went on" in found["reason"]) is bool(ran.data["failed"])
    assert found["dram"]["peak"] * found["dram"]["banks"] == chip["dram"]["reserved_peak"] > 0
    # On n300 and T3K the program dispatches from worker cores, which leaves a row less; 0.72 dispatches from none.
    cores = 56 if name in ("n300", "t3k") else 72 if version == "0.72.0" else TABLE[TABLE_NAMES.get(name, name)].cores
    assert found["l1"]["reserved_peak"] * cores == chip["l1"]["reserved_peak"] > 0
    assert found["l1"]["buffers_peak"] <= found["l1"]["reserved_peak"]
    small = chip["kinds"].get("l1_small", {"peak": 0})["peak"]
    assert bool(small) == bool(found["l1_small"]["needed"])
    if version == "0.72.0":
        assert (found["programs"], found["l1"]["headroom"]) == (None, None)
        assert [row for row in found["unknown"] if "programs are not tracked" in row["text"]]
        assert [note for note in found["notes"] if "without command queues" in note]
    else:
        assert found["programs"] > 0


def test_a_described_machine_is_the_same_machine(folder: Path) -> None:
    """Also: `--board all` names the smallest machine, and a list must fit everywhere."""
    with Bench(folder / "bench", "t3k", "3.10") as bench:
        told = subprocess.run(
            [*TTMEM, "fit", "--describe", "--python", bench.python], env=bench.environment, capture_output=True,
            text=True, timeout=PATIENCE,
        )  # fmt: skip
    assert told.returncode == 0, told.stderr
    (folder / "machine.yaml").write_text(told.stdout)
    weights = "ttnn.empty([1, 1, 32768, 1024], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)"
    model = script(
        folder,
        f"import ttnn\ndevice = ttnn.open_mesh_device(ttnn.MeshShape(1, 1))\nheld = [{weights} for _ in range(250)]\n",
    )
    fitted = fit(folder, "--board", "machine.yaml,p150", "--bytes-per-token", "64K", command=model)
    described, larger = fitted.data["boards"]
    assert (fitted.code, fitted.data["smallest"]) == (4, "p150")
    everywhere = fit(folder, "--board", "all", command=model)
    assert (everywhere.code, everywhere.data["smallest"]) == (0, "p100")
    assert [row["board"] for row in everywhere.data["boards"]] == list(BOARDS)
    (ours,) = [row for row in everywhere.data["boards"] if row["board"] == "t3k"]
    assert described["board"] == "machine.yaml"
    for key in ("verdict", "dram", "l1", "failure", "failures", "notes"):
        assert described[key] == ours[key], key
    assert (ours["failures"], ours["dram"]["peak"]) == (1, 191 * -(-32768 // 12) * 2048)
    assert ours["failure"]["headline"].startswith("out of memory: 64 MiB of DRAM over 12 banks")
    assert ours["failure"]["line"].endswith("model.py:3 <listcomp>")
    assert larger["verdict"] == "fits"
    pages = larger["dram"]["largest_free_min"] // 2048
    assert larger["kv"] == {"bytes_per_token": 65536, "bytes": pages * 2048 * 8, "tokens": pages * 2048 * 8 // 65536}


OPEN = "import ttnn, os, sys\ndevice = ttnn.open_device(device_id=0)\n"
EMPTY = "ttnn.empty([1, 1, 32768, 1024], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)\n"
HELD = f"held = {EMPTY}"
TENSOR = -(-32768 // 12) * 2048  # its bytes in each bank of an n150
# The script; the verdict; words of the reason or the output; bytes per DRAM bank at the peak, None without a device.
BAD_DAYS = {
    "opens no device": ("import ttnn", "unknown", "opened no device", None),
    "needs torch, which is not there": (f"{OPEN}import torch", "unknown", "No module named 'torch'", 0),
    "needs the network": (
        f"{OPEN}import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1/weights')",
        "unknown",
        "Connection refused",
        0,
    ),
    "fails for another reason": (f"{OPEN}{HELD}raise SystemExit(3)", "unknown", "its exit code was 3", TENSOR),
    "crashes": (f"{OPEN}{HELD}os.kill(os.getpid(), 11)", "unknown", "exit code was 139", TENSOR),
    "ends without closing": (f"{OPEN}{HELD}os._exit(0)", "fits", "every allocation succeeded", TENSOR),
    "handles the failure": (
        f"{OPEN}held = []\ntry:\n  while True: held.append({EMPTY.strip()})\nexcept RuntimeError: pass",
        "fails",
        "handled it and went on",
        191 * TENSOR,
    ),
    "prints megabytes": (f"{OPEN}{HELD}for _ in range(200): print('x' * 99_999)", "fits", "every allocation", TENSOR),
    "uses a worker process": (
        "import multiprocessing, ttnn\n"
        f"def work():\n  device = ttnn.open_device(device_id=0)\n  {HELD}  ttnn.close_device(device)\n"
        "if __name__ == '__main__':\n  worker = multiprocessing.get_context('spawn').Process(target=work)\n"
        "  worker.start(); worker.join(); raise SystemExit(worker.exitcode)",
        "fits",
        "every allocation succeeded",
        TENSOR,
    ),
    "forks": (
        f"{OPEN}{HELD}pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\nttnn.close_device(device)",
        "fits",
        "every allocation succeeded",
        TENSOR,
    ),
    "uses sub-devices": (
        f"{OPEN}cores = ttnn.CoreRangeSet({{ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 3))}})\n"
        "device.create_sub_device_manager([ttnn.SubDevice([cores])], 3200)",
        "unknown",
        "called create_sub_device_manager",
        0,
    ),
    "wants a real device": (
        f"{OPEN}{HELD}\ntry: open('/dev/tenstorrent/0')\nexcept PermissionError: print('refused')\nelse: sys.exit(9)",
        "fits",
        "tried to open /dev/tenstorrent",
        TENSOR,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_DAYS)
def test_a_program_that(what: str, folder: Path) -> None:
    text, verdict, words, peak = BAD_DAYS[what]
    fitted = fit(folder, "--board", "n150", command=script(folder, text))
    found = fitted.board
    assert found["verdict"] == verdict, found
    assert words in " ".join([found["reason"], *found["output"], *found["notes"]]), found
    assert (None if found["dram"] is None else found["dram"]["peak"]) == peak
    assert fitted.code == {"fits": 0, "fails": 4, "unknown": 5}[verdict]
    assert os.listdir(folder / "tmp") == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--board", "n150", "--", "no-such-program"], 127, "cannot run no-such-program: No such file or directory"),
        (["--board", "n151", "--", "python"], 2, "there is no board 'n151'; choose from n150, n300"),
        (["--", "python"], 2, "--board is missing"),
        (["--board", "n150"], 2, "there is no command to run"),
        (["--board", "n150", "--order", "largest-first", "--", "python"], 2, "need --replay"),
        (["--board", "n150", "--vary", "a=1..2", "--vary", "b=1..2", "--", "sh", "{a}{b}"], 2, "only one range"),
        (["--replay", "no-such-file"], 1, "no-such-file: No such file"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments: list[str], code: int, words: str, folder: Path) -> None:
    done = subprocess.run([*TTMEM, "fit", *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_two_devices_and_a_file_in_the_current_folder(folder: Path) -> None:
    """The numbers are those of the device that came closest to its limit."""
    text = (
        "import ttnn\nfirst, device = (ttnn.open_device(device_id=number) for number in (0, 1))\n"
        f"{HELD}open('written', 'w').write('kept')\nttnn.close_device(device)\nttnn.close_device(first)\n"
    )
    found = fit(folder, "--board", "n300", command=script(folder, text)).board
    assert (found["verdict"], found["chips"], found["dram"]["peak"]) == ("fits", 2, TENSOR)
    assert (folder / "written").read_text() == "kept"


@pytest.mark.parametrize("until", ["2", "phase:decode", "ops:40"])
def test_a_run_that_would_not_end_is_ended(until: str, folder: Path) -> None:
    text = (
        f"{OPEN}sys.path.insert(0, {str(ROOT / 'src')!r})\nimport ttmem\n{HELD}"
        "small = ttnn.zeros([1, 1, 32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)\n"
        "with ttmem.phase('decode'):\n  for _ in range(5): ttnn.add(small, small)\n"
        "while True: ttnn.add(small, small)\n"
    )
    fitted = fit(folder, "--board", "n150", "--until", until, command=script(folder, text))
    if until == "2" and (fitted.board["dram"] or {"peak": 0})["peak"] <= TENSOR:  # a busy machine: it was too slow
        fitted = fit(folder, "--board", "n150", "--until", "30", command=script(folder, text))
    found = fitted.board
    assert (fitted.code, found["verdict"], found["stopped"]) == (0, "fits", True)
    assert found["reason"] == "every allocation succeeded until the run was stopped"
    assert found["dram"]["peak"] > TENSOR
    if until != "2":
        (phase,) = found["phases"]
        assert phase["phase"] == "decode"
        assert phase["peak"] == found["dram"]["peak"] == found["dram"]["bank_size"] - phase["largest_free_min"]
    assert os.listdir(folder / "tmp") == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_ended_by_a_signal_it_ends_the_command(number: int, code: int, folder: Path) -> None:
    """Also if it is killed and can do nothing any more; then its scratch folder stays."""
    text = f"{OPEN}open('pid', 'w').write(str(os.getpid()))\nwhile True: pass\n"
    command = [*TTMEM, "fit", "--board", "n150", "--", wheel("3.10").python, *script(folder, text)]
    running = subprocess.Popen(command, env=environment(folder), cwd=folder, start_new_session=True)
    try:
        wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text(), "the command")
        running.send_signal(number)
        assert running.wait(PATIENCE) == code
    finally:
        running.kill()
        running.wait()
    wait_until(lambda: not Path(f"/proc/{(folder / 'pid').read_text()}").exists(), "the end of the command")
    assert code < 0 or os.listdir(folder / "tmp") == []


def test_the_largest_value_is_the_one_that_arithmetic_gives(folder: Path) -> None:
    """For each value of another variable. Also: results are kept, and a changed script is run again."""
    text = (
        "import sys, ttnn\ndevice = ttnn.open_device(device_id=0)\n"
        "batch, tensors = map(int, sys.argv[1:])\nshape = [batch, 8, 8192, 128]\n"
        "held = [ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device) for _ in range(tensors)]\n"
    )
    tiles, bank, last = 8 * 256 * 4, 1072693184, 5

    def expected(tensors: int) -> int:
        return max(value for value in range(1, last + 1) if tensors * -(-value * tiles // 12) * 2048 <= bank)

    arguments = ["--board", "n150", "--vary", f"batch=1..{last}", "--vary", "tensors=160,256"]
    command = [*script(folder, text), "{batch}", "{tensors}"]
    fitted = fit(folder, *arguments, command=command)
    assert fitted.code == 0
    assert [one["searched"] for one in fitted.data["varied"]] == [True, False]
    tried = 0
    for border, tensors in zip(fitted.data["borders"], (160, 256), strict=True):
        largest = expected(tensors)
        assert border["values"] == {"tensors": str(tensors)}
        assert (border["largest"], border["next"], border["next_verdict"]) == (largest, largest + 1, "fails")
        rows = [row for row in fitted.data["boards"] if row["values"]["tensors"] == str(tensors)]
        assert {int(row["values"]["batch"]): row["verdict"] for row in rows} == {
            value: "fits" if value <= largest else "fails" for value in border["tried"]
        }
        assert {largest, largest + 1, min(largest + 2, last)} <= set(border["tried"])
        tried += len(rows)
    again = fit(folder, *arguments, command=command)
    assert f"{tried} of {tried} runs were kept" in again.err
    assert again.data == fitted.data
    changed = fit(
        folder, "--board", "n150", "--vary", "batch=1,5", "--vary", "tensors=160",
        command=[*script(folder, text + "#"), "{batch}", "{tensors}"],
    )  # fmt: skip
    assert (changed.code, changed.err) == (4, "")
    assert [row["verdict"] for row in changed.data["boards"]] == ["fits", "fails"]


@pytest.mark.parametrize(("name", "shape"), [("p150", (1, 1)), ("t3k", (1, 8))])
def test_a_kv_budget_is_what_can_be_allocated_and_not_a_tile_more(
    name: str, shape: tuple[int, int], folder: Path
) -> None:
    out = folder / "out.json"
    command = [str(PROGRAMS / "ttnn_budget.py"), str(out), *map(str, shape)]
    fit(folder, "--board", name, command=command, PYTHONPATH=str(ROOT / "src"))
    cases = json.loads(out.read_text())
    assert len(cases) == 5
    for case in cases:
        budget = case["budget"]
        assert case["exact"], case
        assert case["more"] == bool(case["reserve"]), case
        assert budget["bytes_per_chip"] == budget["tiles_per_tensor"] * case["tile"] * case["tensors"] > 0
        assert budget["chips"] == len(BOARDS[name].chips)
        assert budget["tokens"] == budget["bytes_per_chip"] // 640
        assert budget["bytes_over_mesh"] == budget["bytes_per_chip"] * budget["chips"]
        assert budget["tokens_over_mesh"] == budget["tokens"] * budget["chips"]


@pytest.mark.parametrize(("name", "shape"), [("n150", (1, 1)), ("t3k", (1, 8))])
def test_with_fake_weights_every_allocation_is_the_same(name: str, shape: tuple[int, int], folder: Path) -> None:
    """All buffers and programs in their order, with their addresses: every format with every mesh mapper."""

    def events(**environment: str) -> tuple[list[tuple[object, ...]], str]:
        found: list[tuple[object, ...]] = []

        def see(ledger: Ledger, event: Event) -> bool:
            if isinstance(event, Allocated):
                found.append(("allocated", event.kind, event.device, event.address, event.size))
            elif isinstance(event, Freed):
                found.append(("freed", event.kind, event.device, event.address))
            return False

        report, path = folder / "report", folder / "run.ttmem"
        path.unlink(missing_ok=True)
        report.write_text("")
        library = str(agent.require_file(agent.FIT_LIBRARY))
        with Bench(folder / "bench", name, "3.10") as bench:
            ran = bench.run(
                "ttnn_weights", *map(str, shape), options=["--record", str(path)], LD_PRELOAD=library,
                TTMEM_FIT_REPORT=str(report), TTMEM_FIT_SKIP_VALIDATION="1", **environment,
            )  # fmt: skip
        assert (ran.code, ran.data["dropped"]) == (0, 0), ran.err
        with Recording(str(path)) as recording:
            recording.replay(Ledger(), reached=see)
        return found, report.read_text()

    real, fake = events(), events(TTMEM_FIT_FAKE_WEIGHTS="1")
    assert real[0] == fake[0]
    assert len(real[0]) > 200
    assert (" weights " in real[1], " weights " in fake[1]) == (False, True)


def test_real_kernels_are_those_of_the_installed_compiler(folder: Path) -> None:
    """The wheel of the tests has a compiler of its own, whose kernels have different sizes: it stands for sfpi."""
    text = (
        f"{OPEN}"
        "small = ttnn.zeros([1, 1, 256, 256], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)\nttnn.matmul(small, small)\n"
    )
    command = script(folder, text)
    real = fit(folder, "--board", "n150", "--real-kernels", command=command)
    small = fit(folder, "--board", "n150", command=command).board
    ring = real.board["kernel_ring"]
    assert ring["size"] > ring["needed"] > 5 << 10, "five kernels of 1 KiB or more; those of the stand-in are tiny"
    assert ring["operation"] == "ttnn.matmul"
    assert real.data["real_kernels"]
    assert small["kernel_ring"] is None
    assert [[row["what"] for row in board["unknown"]] for board in (real.board, small)] == [
        ["kernel binaries"],
        ["kernel binaries", "kernel ring"],
    ]
    for key in ("verdict", "dram", "l1", "programs"):
        assert real.board[key] == small[key], key


def test_fake_weights_are_noted(folder: Path) -> None:
    """Values of large tensors are zero, those of small ones are right; without the option both are right."""
    text = (
        f"{OPEN}import numpy\nfor side in (64, 512):\n"
        "  made = ttnn.Tensor(tensor=numpy.ones([side, side], dtype=numpy.float32), data_type=ttnn.bfloat16,"
        " layout=ttnn.TILE_LAYOUT)\n  print(set(made.to_list()[0]), file=open('values', 'a'))\n"
    )
    found = fit(folder, "--board", "n150", "--fake-weights", command=script(folder, text))
    assert found.data["fake_weights"]
    assert [note for note in found.board["notes"] if "were not turned into tiles on the host" in note]
    assert (folder / "values").read_text() == "{1.0}\n{0.0}\n"
    fit(folder, "--board", "n150", command=["-c", text])
    assert (folder / "values").read_text() == "{1.0}\n{0.0}\n{1.0}\n{1.0}\n"
    nothing = fit(folder, "--board", "n150", "--fake-weights", command=["-c", OPEN]).board
    assert [note for note in nothing["notes"] if "had no effect" in note]
