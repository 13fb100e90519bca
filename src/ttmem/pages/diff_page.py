# SPDX-License-Identifier: Apache-2.0
"""The data of a page of two recordings: what differs, both timelines, and call sites that are the same in both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ttmem import __version__
from ttmem.analyze.call_tree import path_of
from ttmem.compare.diff_document import row_key
from ttmem.compare.matching import Pair, matched
from ttmem.documents.diff_words import COUNTS, MORE_IS_BETTER
from ttmem.ingest.clock import rfc3339
from ttmem.model.kinds import BREAKDOWN_POOLS, KINDS
from ttmem.model.stack_frames import line_of
from ttmem.pages.report_document import report_of
from ttmem.pages.report_marks import nanoseconds
from ttmem.pages.report_sites import Stacks, Strings

if TYPE_CHECKING:
    from ttmem.compare.sides import Held, Side
    from ttmem.model.page_schema import DiffReport, DiffReportSide, PageSection, Report, ReportGroup, ReportSite
    from ttmem.model.schema import Diff
    from ttmem.recording.recording_file import Recording

SCHEMA: Final = "ttmem.diff_report/1"


class Compared(NamedTuple):
    """One of two recordings: what was compared, and its report."""

    side: Side
    report: Report
    sections: dict[str, bytes]
    moment: int  # nanoseconds after the start


class MadeDiff(NamedTuple):
    """The document of a page and its sections by name, compressed."""

    document: DiffReport
    sections: dict[str, bytes]


class Origin(NamedTuple):
    """What a call site is recognised by: the number of its kind, operation, shape, and frames with their types."""

    kind: int
    op: str | None
    shape: str | None
    frames: tuple[tuple[str, str], ...]


def compared(recording: Recording, side: Side, time: float, *, made: float, title: str) -> Compared:
    """A recording whose state at a time was compared."""
    report = report_of(recording, made=made, title=title)
    moment = nanoseconds(recording, time, report.document["length_ns"])
    return Compared(side, report.document, report.sections, moment)


def diff_of(diff: Diff, old: Compared, new: Compared, *, made: float) -> MadeDiff:
    """The page of two recordings. ``made`` is the present time."""
    merged = _Merged(old, new, diff["by"])
    sections: dict[str, bytes] = {}
    document: DiffReport = {
        "schema": SCHEMA,
        "ttmem": __version__,
        "made": rfc3339(made),
        "title": f"{old.report['title']} → {new.report['title']}",
        "diff": diff,
        "counts": list(COUNTS),
        "more_is_better": list(MORE_IS_BETTER),
        "kinds": [kind.label for kind in KINDS],
        "pools": {pool.label: [int(kind) for kind in kinds] for pool, kinds in BREAKDOWN_POOLS.items()},
        "strings": [],
        "stacks": merged.stacks.tree,
        "sites": merged.sites,
        "rows": {
            pool["pool"]: [merged.of_row(pool["pool"], row["key"]) for row in pool["rows"]] for pool in diff["pools"]
        },
        "old": _side(old, merged.of_old, "old/", sections),
        "new": _side(new, merged.of_new, "new/", sections),
    }  # fmt: skip
    document["strings"] = merged.strings.list
    return MadeDiff(document, sections)


def _side(one: Compared, sites: list[int], prefix: str, sections: dict[str, bytes]) -> DiffReportSide:
    """A recording without what the page does not show. Its sections are added to those of the page."""
    report = one.report
    groups: list[ReportGroup] = [{**group, "maps": []} for group in report["groups"]]
    index: dict[str, PageSection] = {}
    for name in _sections_of(groups):
        index[name] = report["sections"][name]
        sections[prefix + name] = one.sections[name]
    return {
        "title": report["title"],
        "begin": report["begin"],
        "length_ns": report["length_ns"],
        "moment_ns": one.moment,
        "facts": report["facts"],
        "verdict": report["verdict"],
        "losses": report["losses"],
        "notes": report["notes"],
        "groups": groups,
        "phases": report["phases"],
        "marks": report["marks"],
        "sites": sites,
        "sections": index,
    }


def _sections_of(groups: Sequence[ReportGroup]) -> Iterator[str]:
    for group in groups:
        yield group["timeline"]
        if group["windows"] is not None:
            yield group["windows"]
        yield from (level["section"] for level in group["levels"])


class _Merged:
    """The call sites of both recordings, each once. A pair of the comparison has the properties of the new one."""

    def __init__(self, old: Compared, new: Compared, by: str) -> None:
        self.strings = Strings()
        self.stacks = Stacks(self.strings)
        self.sites: list[ReportSite] = []
        self._places: dict[tuple[object, ...], int] = {}
        self._rows: dict[tuple[str, str], set[int]] = defaultdict(set)
        pairs = matched(old.side.held, new.side.held)
        self._moved = _moved_frames(pairs)
        partner = _partners(pairs)
        self.of_new = [self._new_site(new.report, site) for site in new.report["sites"]]
        self.of_old = [self._old_site(old.report, site, partner) for site in old.report["sites"]]
        for reports, own, held in ((old.report, self.of_old, "old"), (new.report, self.of_new, "new")):
            self._note_rows(reports, own, pairs, held, by)

    def of_row(self, pool: str, key: str) -> list[int]:
        return sorted(self._rows[pool, key])

    def _new_site(self, report: Report, site: ReportSite) -> int:
        return self._place(_origin(report, site), _text(report, site["part"]), site["other"])

    def _old_site(self, report: Report, site: ReportSite, partner: dict[Origin, Origin]) -> int:
        origin = _origin(report, site)
        if origin in partner:
            origin = partner[origin]
        else:  # its callers are those of the new recording, if their lines have only moved
            frames = tuple((self._moved.get(name, name), kind) for name, kind in origin.frames)
            origin = origin._replace(frames=frames)
        return self._place(origin, _text(report, site["part"]), site["other"])

    def _place(self, origin: Origin, part: str | None, other: int) -> int:
        key = (origin, part, other > 0)
        if key not in self._places:
            self._places[key] = len(self.sites)
            stack = "\n".join(name for name, _ in reversed(origin.frames)) or None
            self.sites.append({
                "kind": origin.kind,
                "op": self.strings.place(origin.op),
                "shape": self.strings.place(origin.shape),
                "line": self.strings.place(line_of(stack)),
                "stack": self.stacks.add(origin.frames),
                "part": self.strings.place(part),
                "other": other,
            })  # fmt: skip
        return self._places[key]

    def _note_rows(self, report: Report, own: list[int], pairs: Sequence[Pair], which: str, by: str) -> None:
        """Which call sites each row of the comparison stands for."""
        by_origin: dict[Origin, list[int]] = defaultdict(list)
        for site, place in zip(report["sites"], own):
            if not site["other"]:
                by_origin[_origin(report, site)].append(place)
        for pair in pairs:
            held = pair.old if which == "old" else pair.new
            if held is not None:
                key = held.origin.pool.label, row_key(pair.old, pair.new, by)
                self._rows[key].update(by_origin.get(_origin_of(held), ()))


def _origin(report: Report, site: ReportSite) -> Origin:
    frames, node = [], site["stack"]
    while node >= 0:
        frames.append((report["strings"][report["stacks"]["name"][node]], report["stacks"]["type"][node]))
        node = report["stacks"]["parent"][node]
    return Origin(site["kind"], _text(report, site["op"]), _text(report, site["shape"]), tuple(reversed(frames)))


def _text(report: Report, number: int) -> str | None:
    return None if number < 0 else report["strings"][number]


def _origin_of(held: Held) -> Origin:
    origin = held.origin
    frames = tuple((name, kind) for name, kind in path_of(origin.stack, origin.op) if kind in ("frame", "ttnn"))
    kind = next(int(kind) for kind in KINDS if kind.label == origin.kind)
    return Origin(kind, origin.op, origin.shape, frames)


def _partners(pairs: Sequence[Pair]) -> dict[Origin, Origin]:
    """Of each call site of the old recording, the one of the new recording that is the same."""
    found: dict[Origin, Origin] = {}
    for old, new in pairs:
        if old is not None and new is not None:
            found.setdefault(_origin_of(old), _origin_of(new))
    return found


def _moved_frames(pairs: Sequence[Pair]) -> dict[str, str]:
    """New texts of frames whose line numbers changed, from stacks that are otherwise the same."""
    found: dict[str, str] = {}
    for old, new in pairs:
        if old is None or new is None or not old.origin.stack or not new.origin.stack:
            continue
        before, after = old.origin.stack.split("\n"), new.origin.stack.split("\n")
        if len(before) == len(after):
            for was, now in zip(before, after):
                if was != now and _function(was) == _function(now):
                    found.setdefault(was, now)
    return found


def _function(frame: str) -> tuple[str, str]:
    """File name and function of a frame.

    >>> _function("/srv/llama/model.py:12 forward")
    ('model.py', 'forward')
    """
    place, _, function = frame.partition(" ")
    return place.rsplit("/", 1)[-1].rsplit(":", 1)[0], function
