# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of pages: a report, the live page and a comparison, as Chromium draws them, as small PNG files.

`make pictures` runs it. The programs of the report and of the comparison are real ttnn on mock devices.
"""

from __future__ import annotations

import base64
import os
import re
import select
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page
from tests.browser import Tab, running_browser
from tests.page_samples import quiet
from tests.runs import Bench

_HERE = Path(__file__).resolve().parent
_WIDTH = 1440
_COLOURS = 255
_MODEL = ("--hidden", "2048", "--layers", "6", "--steps", "40")
_LIVE_SECONDS = 40.0  # so that the charts have a past
# The pixels of a picture. Chromium decodes it, so that this module needs no decoder.
_PIXELS = """
async (png) => {
  const bytes = Uint8Array.from(atob(png), (one) => one.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const data = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let i = 0; i < data.length; i += 32768) text += String.fromCharCode(...data.subarray(i, i + 32768));
  return [image.width, image.height, btoa(text)];
}
"""
# Replaces texts of this machine: pairs of pattern and replacement.
_REPLACE = """
(pairs) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (element.closest("script, style")) continue;
    let text = texts.currentNode.data;
    for (const [pattern, words] of pairs) text = text.replace(new RegExp(pattern, "g"), words);
    if (text !== texts.currentNode.data) texts.currentNode.data = text;
  }
}
"""
_ANYWHERE = [
    [r"/\S*/bin/python[\d.]*", "python"],
    [r"/\S*/(model\.py)", "$1"],
    [r"/\S*/(\w+\.ttmem)", "$1"],
    [re.escape(tempfile.gettempdir()) + r"/tmp\w+(/\S*)?", "/home/me/llama"],
    [re.escape(os.uname().nodename) + r"$", "box"],
    [r"^root$", "me"],
]  # fmt: skip


def main(names: list[str]) -> int:
    scenes: dict[str, Callable[[Browser, Path], bytes]] = {"report": report, "diff": diff, "web": web}
    unknown = set(names) - set(scenes)
    if unknown:
        print(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(scenes)}")
        return 2
    with running_browser() as browser, tempfile.TemporaryDirectory() as folder:
        for name, take in scenes.items():
            if not names or name in names:
                path = _HERE / f"{name}.png"
                path.write_bytes(smaller(browser, take(browser, Path(folder))))
                print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    return 0


def report(browser: Browser, folder: Path) -> bytes:
    """A decoder that keeps a result of each step: the first screen, and the timeline of its phases."""
    recording = _recorded(folder, "run", *_MODEL, "--leak")
    page = folder / "report.html"
    quiet("report", str(recording), "-o", str(page))
    with _tab(browser, 1230) as tab:
        tab.open(page)
        shown = tab.data["report"]
        begin, end = (shown["phases"][place][key] for place, key in ((0, "from_ns"), (-1, "until_ns")))
        rest = (end - begin) // 20
        tab.open(page, f"view={max(0, begin - rest)}-{min(shown['length_ns'], end + rest)}")
        tab.page.reload()
        return _taken(tab.page, "#timeline .uplot")


def diff(browser: Browser, folder: Path) -> bytes:
    """The same decoder with two layers more, which also keeps a result of each step."""
    old = _recorded(folder, "monday", *_MODEL)
    new = _recorded(folder, "tuesday", *_MODEL, "--layers", "8", "--leak")
    page = folder / "diff.html"
    quiet("diff", str(old), str(new), "--html", str(page))
    with _tab(browser, 1350) as tab:
        tab.open(page)
        return _taken(tab.page, ".diff-timeline .uplot")


def web(browser: Browser, folder: Path) -> bytes:
    """The live page of 32 simulated chips."""
    command = [sys.executable, "-m", "ttmem", "demo", "--web", "--port", "0", "--devices", "galaxy"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TTMEM_", "TT_"))}
    environment["PYTHONUNBUFFERED"] = "1"
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip
    try:
        address = _address(process)
        with _tab(browser, 930) as tab:
            tab.open(address)
            time.sleep(_LIVE_SECONDS)
            return _taken(tab.page, ".tile")
    finally:
        process.terminate()
        process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for _ in range(20):
        if not select.select([process.stdout], [], [], 60)[0]:
            break
        found = re.search(r"(http://\S+token=\S+)", process.stdout.readline())
        if found:
            return found[1]
    raise RuntimeError("`ttmem demo --web` printed no address")


@contextmanager
def _tab(browser: Browser, height: int) -> Iterator[Tab]:
    tab = Tab(browser, width=_WIDTH, height=height)
    try:
        yield tab
    finally:
        tab.close()


def _taken(page: Page, drawn: str) -> bytes:
    """A picture of the window, once an element is drawn."""
    page.locator(drawn).first.wait_for()
    page.wait_for_timeout(1500)  # charts are drawn after their data is decoded
    page.evaluate(_REPLACE, _ANYWHERE)
    return page.screenshot()


def _recorded(folder: Path, name: str, *arguments: str) -> Path:
    """The recording of the decoder of the tests, which is called model.py here."""
    place = folder / name / "llama"
    place.mkdir(parents=True)
    program = place / "model.py"
    root = _HERE.parents[1]
    program.write_text((root / "tests" / "programs" / "ttnn_decoder.py").read_text())
    recording = folder / f"{name}.ttmem"
    with Bench(place) as bench:
        ran = bench.run_command(
            [bench.python, str(program), *arguments],
            options=["--stacks", "--quiet", "--record", str(recording)], PYTHONPATH=str(root / "src"),
        )  # fmt: skip
    assert ran.code == 0, ran.err
    return recording


def smaller(browser: Browser, png: bytes) -> bytes:
    """The picture with its most frequent colours; each other pixel gets the nearest of them."""
    page = browser.new_page()
    width, height, text = page.evaluate(_PIXELS, base64.b64encode(png).decode())
    page.close()
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(-1, 4)[:, :3].astype(np.int64)
    packed = pixels[:, 0] << 16 | pixels[:, 1] << 8 | pixels[:, 2]
    colours, place, count = np.unique(packed, return_inverse=True, return_counts=True)
    kept = colours[np.argsort(-count)[:_COLOURS]]
    channels = np.array([16, 8, 0])
    far = (colours[:, None] >> channels & 255)[:, None, :] - (kept[:, None] >> channels & 255)[None, :, :]
    nearest = np.argmin((far * far * np.array([2, 4, 3])).sum(axis=2), axis=1).astype(np.uint8)
    rows = nearest[place.reshape(-1)].reshape(height, width)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()  # no filter in each line
    palette = (kept[:, None] >> channels & 255).astype(np.uint8).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
