# SPDX-License-Identifier: Apache-2.0
"""Show the machine in a browser: chips, charts, processes, the L1 of every core, allocations, events, findings.

It prints an address with a token; open it in a browser. Without a server, the page shows what the machine itself shows,
and more as soon as a server answers. With FILE, it shows the report of a recording. It only reads, and listens on this
machine only unless --host says otherwise. SIGINT or SIGTERM ends it.

Exit code: 0 it was ended, 1 it cannot be served (the port is in use, ttmem was built without its pages, FILE cannot be
read), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import webbrowser
from collections.abc import Callable
from typing import Literal
from urllib.parse import urlsplit

from ttmem.cli import CommandError, UsageError, complain
from ttmem.cli.options import LOOPBACK, add_address, add_socket, address_of, api_socket
from ttmem.pages.html_page import Bundle, BundleMissing, load_bundle
from ttmem.pages.web_live import LiveContent
from ttmem.pages.web_server import Content, WebError, WebServer, listen, ssh_command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="recording whose report is shown, instead of the current state"
    )
    add_address(parser)
    parser.add_argument(
        "--public-url", metavar="URL", type=_url, help="address of the page behind a proxy, as browsers see it"
    )
    add_socket(parser)
    parser.add_argument("--root", default="/", help=argparse.SUPPRESS)  # for tests: files of a machine


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        valid = False
    if not valid:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as https://host.example/ttmem/")
    return text


def run(args: argparse.Namespace) -> int:
    if args.file is not None and args.socket is not None:
        raise UsageError("--socket and FILE cannot be used together: a recording needs no server")
    if args.file is None:
        return serve(args, api=api_socket(args), public_url=args.public_url, root=args.root)
    from ttmem.cli.recorded import opened
    from ttmem.cli.report import title_of
    from ttmem.pages.web_report import RecordedContent

    with opened(args.file) as recording:
        title = title_of(recording, confidential=False)
        return _serve("report", lambda found, ssh: RecordedContent(found, recording, title), args, args.public_url)


def serve(
    args: argparse.Namespace,
    *,
    api: str | None,
    public_url: str | None = None,
    root: str = "/",
    ended: Callable[[], bool] = lambda: False,
) -> int:
    """Serve the live page until a signal comes, or ``ended`` is true. Also for `ttmem demo --web`."""

    def content(found: Bundle, ssh: str | None) -> Content:
        return LiveContent(found, api, user=_user(), ssh=ssh, root=root)

    return _serve("live", content, args, public_url, ended)


def _serve(
    page: Literal["report", "live"],
    content: Callable[[Bundle, str | None], Content],
    args: argparse.Namespace,
    public_url: str | None,
    ended: Callable[[], bool] = lambda: False,
) -> int:
    """Listen, print the address, and serve."""
    host, port = address_of(args)
    try:
        found = load_bundle(page)
        sock = listen(host, port)
    except (BundleMissing, WebError) as error:
        raise CommandError(str(error)) from None
    ssh = ssh_command(sock.getsockname()[1]) if host == LOOPBACK else None
    server = WebServer(content(found, ssh), sock, host=host, public_url=public_url)

    def ready() -> None:
        print(f"Open {server.url}", flush=True)
        if ssh is not None and public_url is None:
            print(f"From another machine: {ssh}, then open the same address there", flush=True)
        elif not server.address.loopback and not server.url.startswith("https:"):
            complain("ttmem web: the address is not encrypted; anyone on the way can read the token and the page")
        if args.open:
            webbrowser.open(server.url)

    try:
        asyncio.run(server.run(ready, ended, lambda text: complain(f"ttmem web: {text}")))
    finally:
        sock.close()
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
