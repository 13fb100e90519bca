# SPDX-License-Identifier: Apache-2.0
"""Runs a command once on the mock devices of one machine, under the agent."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ttmem.fit.fit_listener import FitListener, FitSizes
from ttmem.fit.mock_environment import Machine, MockEnvironment
from ttmem.fit.output_tail import OutputTail
from ttmem.fit.ttnn_root import Ttnn
from ttmem.fit.until import Until
from ttmem.run.launch import Apart
from ttmem.run.launch import run as launch
from ttmem.run.result import RunResult, result_of
from ttmem.run.session import Session
from ttmem.wire.agent_ring import Cause

_STACK_FRAMES = 8
_OUTPUT_LINES = 12


class AllocatorUse(NamedTuple):
    """The sizes of one allocator, and the operations that they name."""

    sizes: FitSizes
    tightest: Cause | None  # the program with the least headroom
    holder: Cause | None  # the L1 buffer above it
    lowest: Cause | None  # the program that came closest to the end of L1
    ring: Cause | None = None  # the program that needs most of the kernel ring


class MockRun(NamedTuple):
    """A run that has ended."""

    machine: Machine
    result: RunResult
    allocators: list[AllocatorUse]
    reported: list[tuple[str, int]]  # by libttmem_fit.so
    foreign_chips: list[str]  # chips that are none of the mock devices
    output: list[str]  # the last lines
    stopped: bool  # by the condition of --until
    warnings: list[str]


class RunOptions(NamedTuple):
    """How to run a command on each machine."""

    ttnn: Ttnn
    real_kernels: bool = False
    until: Until | None = None
    show_output: bool = False
    bytes_per_token: int | None = None
    fake_weights: bool = False


def mock_run(command: Sequence[str], machine: Machine, env: Mapping[str, str], options: RunOptions) -> MockRun:
    """Run the command. LaunchError if it cannot be started, KeyboardInterrupt if the user interrupted it."""
    warnings: list[str] = []
    with (
        MockEnvironment(machine, options.ttnn, env, options.real_kernels, options.fake_weights) as mock,
        Session(warnings.append, listener=FitListener) as session,
    ):
        stopped = False
        condition = options.until.condition(session) if options.until is not None else lambda: False

        def stop() -> bool:
            nonlocal stopped
            stopped = stopped or condition()
            return stopped

        with OutputTail(os.dup(2) if options.show_output else None) as output:
            apart = Apart(output.writer, stop)
            variables = mock.variables
            if options.until is not None and options.until.ops is not None:
                variables["TTMEM_FIT_MOST_LAUNCHES"] = str(options.until.ops)
            ended = launch(command, session, variables, None, stacks=_STACK_FRAMES, apart=apart)
        if apart.received == signal.SIGINT:
            raise KeyboardInterrupt
        result = result_of(command, ended, session, socket.gethostname())
        reported = mock.reported()
        known = {str(chip_id) for chip_id in mock.chip_ids.values()}
        return MockRun(
            machine=machine,
            result=result,
            allocators=[_allocator_use(agent, sizes) for agent in session.agents for sizes in agent.sizes],
            reported=reported,
            foreign_chips=[chip.id for chip in session.ledger.chips.values() if chip.id not in known],
            output=output.lines(_OUTPUT_LINES),
            stopped=stopped or any(what == "stopped" for what, _ in reported),
            warnings=warnings,
        )


def _allocator_use(agent: object, sizes: object) -> AllocatorUse:
    assert isinstance(agent, FitListener)
    assert isinstance(sizes, FitSizes)

    def cause(blob: int) -> Cause | None:
        return agent.ring.cause(blob) if blob else None

    least, below = sizes.least, sizes.room_below_end
    return AllocatorUse(
        sizes,
        tightest=None if least is None else cause(least.program),
        holder=None if least is None else cause(least.holder),
        lowest=None if below is None else cause(below[1]),
        ring=cause(sizes.ring[1]),
    )
