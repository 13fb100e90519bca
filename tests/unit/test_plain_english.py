# SPDX-License-Identifier: Apache-2.0
"""Documentation, help texts, docstrings and comments are in plain English: no banned phrases, short lines in docs/."""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from ttmem.cli import COMMANDS, full_parser

# Phrases that readers had to decode. CONTRIBUTING.md describes the style; say instead:
BANNED = {
    "by the word of": "as reported by",
    "who is there": "held by",
    "what would do": "possible fixes",
    "so many ms": "interval in ms",
    "would do and no less": "would be exactly enough",
    "would have done": "would have been enough",
    "is to be told": "is reported",
    "is to be said": "is reported",
    "picture to picture": "refresh interval",
    "put together by": "grouped by",
    "together by this": "group by",
    "told anew": "reported again",
    "tells anew": "reports again",
    "says of itself": "reports",
    "who looks": "a user who",
    "was at hand": "was available",
    "a bad day": "difficult conditions",
    "gives it back": "frees it",
    "what answers on": "the program on",
    "makes no sense": "is invalid",
    "nobody knows better": "there is no better source",
    "in however many": "in any number of",
}
# Words that stand for a program, a file or a value in docstrings and comments. Name the thing instead:
BANNED_WORDS = {
    "anew": "again",
    "anybody": "any process, any user",
    "everybody": "all processes, all users",
    "heard": "reported",
    "nobody": "no process, no user",
    "somebody": "a process, another user",
    "told": "reported, known",
    "whoever": "the process that, the user who",
    "whom": "the process that",
}
COLUMNS = 100
CODE = ("src/ttmem", "benchmarks", "examples", "native", "tests")
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    *DOCS,
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(ROOT / folder / "README.md" for folder in ("examples", "packaging", "tests/programs")),
]


def banned_in(text: str) -> list[str]:
    """The banned phrases of a text, also where a line ends within one."""
    words = " ".join(text.lower().split())
    return [f"{phrase!r}: write {better!r} instead" for phrase, better in BANNED.items() if phrase in words]


def notes_in(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, with their line numbers. Examples in docstrings are left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, re.sub(r">>> .*", "", text, flags=re.DOTALL)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def banned_words_in(text: str) -> list[str]:
    """The banned words of a text. Names in backquotes are left out, such as the user `nobody`."""
    found = set(re.findall(r"[a-z]+", re.sub(r"`[^`]*`", "", text.lower()))) & BANNED_WORDS.keys()
    return [f"{word!r}: write {BANNED_WORDS[word]!r} instead" for word in sorted(found)]


def may_have_problems(source: str) -> bool:
    """False if a banned word or phrase occurs nowhere in it, not even in its code. To parse all files takes long."""
    return bool(banned_in(source)) or not BANNED_WORDS.keys().isdisjoint(re.findall(r"[a-z]+", source.lower()))


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines outside code blocks and tables: those that can be wrapped."""
    in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block and not line.lstrip().startswith("|"):
            yield number, line


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    parser = full_parser()
    (action,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {"": parser, **action.choices}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_has_no_banned_phrase(page: Path) -> None:
    assert banned_in(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_of_a_page_are_short(page: Path) -> None:
    long = [number for number, line in prose_lines(page.read_text()) if len(line) > COLUMNS and " " in line.strip()]
    assert not long, f"{name(page)} has lines of more than {COLUMNS} columns"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_help_text_has_no_banned_phrase(command: str) -> None:
    assert banned_in(commands()[command].format_help()) == []


def test_docstrings_and_comments_have_no_banned_phrase() -> None:
    found = [
        f"{name(path)}:{line}: {problem}"
        for folder in CODE
        for path in sorted((ROOT / folder).rglob("*.py"))
        if may_have_problems(source := path.read_text())
        for line, text in notes_in(source)
        for problem in (*banned_in(text), *banned_words_in(text))
    ]
    assert found == []


def test_what_is_left_out_exists() -> None:
    assert all((ROOT / path).exists() for path in CODE)


def test_phrases_and_lines_are_found() -> None:
    """The checks themselves: a phrase over two lines, and lines in blocks and tables."""
    assert banned_in("Largest block, by the\n  Word of the allocator.") == [
        "'by the word of': write 'as reported by' instead"
    ]
    assert banned_in("Largest block, as reported by the allocator.") == []
    text = "prose\n```\ncode\n```\n| cell |\n- item"
    assert list(prose_lines(text)) == [(1, "prose"), (6, "- item")]


def test_docstrings_and_comments_are_found() -> None:
    source = '''"""Whoever."""

def f():
    """One.

    >>> told
    """  # anew
    return "nobody"
'''
    assert sorted(notes_in(source)) == [(1, "Whoever."), (4, "One.\n\n"), (7, "# anew")]
    assert banned_words_in("Ask whoever it is.") == ["'whoever': write 'the process that, the user who' instead"]
    assert banned_words_in("The untold story, re-told by none") == ["'told': write 'reported, known' instead"]
    assert banned_words_in("The user `nobody`, and nobody else") == ["'nobody': write 'no process, no user' instead"]
