# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks report about losses is what the snapshot of a server has."""

from __future__ import annotations

from benchmarks.server_loops import losses

from tests.unit.test_snapshot import Account
from ttmem.model.events import Lost


def test_losses() -> None:
    account = Account()
    for pid in (42, 43):
        account.source(pid)
    assert losses(account.snapshot()) == "0 dropped"
    account.apply(account.source(42), Lost(1234))
    account.source(42).unread, account.source(43).shed = 5, True
    assert losses(account.snapshot()) == "1,234 dropped, unread [5, 0], shed [False, True]"
