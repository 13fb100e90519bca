# SPDX-License-Identifier: Apache-2.0
"""Everything that an account knows, to compare two ways into it: more than any document shows."""

from __future__ import annotations

from tests.recordings import state
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.saved_history import saved
from ttmem.account.totals import Total
from ttmem.documents.peaks import peaks


def everything(ledger: Ledger, source: Source) -> object:
    """Everything that events of this source change."""
    return (
        ledger.seq,
        dict(ledger.anomalies),
        source.process.count,
        source.frees_elsewhere,
        source.process.claimed,
        state(ledger),
        saved(ledger),
        peaks(ledger),
        [_figures(total) for total in _totals(source)],
        [
            (holding.freed, holding.freed_before, holding.unplaced.keys(), list(holding.buffers),
             [(one.refs, one.born, one.kind) for one in holding.buffers.values()])
            for holding in source.holdings.values()
        ],
    )  # fmt: skip


def take_highs(source: Source) -> list[int]:
    """The highest value of each total since the last call, as a sampler takes it."""
    return [total.take_high() for total in _totals(source)]


def _totals(source: Source) -> list[Total]:
    shares = source.process.shares.values()
    found = dict.fromkeys(total for share in shares for total in (*share.chip.totals(), *share.pools))
    for holding in source.holdings.values():
        found.update(dict.fromkeys(leaf for leaf in holding.leaves if leaf is not None))
    return list(found)


def _figures(total: Total) -> object:
    gone = [sorted(entry[:2] for entry in peak.gone) for peak in (total.recent, total.peak)]
    sizes = total.used, total.reserved, total.known, total.unknown
    return sizes, total.reserved_peak, total.high, total.high_before, total.watch, gone
