# SPDX-License-Identifier: Apache-2.0
"""The senders of this process: clients that report for the same source share one.

For the server, a name is one source, and the table of one sender would replace that of another.
"""

from __future__ import annotations

import threading
import weakref

from ttmem.collect.sender import Sender
from ttmem.model.kinds import Confidence
from ttmem.wire.endpoint import search_paths
from ttmem.wire.handshake import hello

_Key = tuple[str, Confidence, tuple[str, ...]]

_sharing = threading.RLock()
_senders: weakref.WeakValueDictionary[_Key, Sender] = weakref.WeakValueDictionary()


def join(paths: list[str] | None, source: str, confidence: Confidence) -> Sender:
    """The sender of this process for a source. Each caller must call ``leave`` later."""
    key = source, confidence, tuple(paths or search_paths())
    with _sharing:
        sender = _senders.get(key)
        if sender is not None:
            sender.users += 1  # first, because a garbage collection may release the last other user
            if sender.open:
                return sender
        sender = _senders[key] = Sender(paths, hello(source, confidence))
        return sender


def leave(sender: Sender) -> None:
    """A client no longer uses the sender. After the last one, it stops when everything is sent."""
    with _sharing:
        sender.users -= 1
        if not sender.users:
            sender.close()


def flush_all(timeout: float) -> None:
    """At a normal exit, wait a moment for the last events if a server accepts them."""
    for sender in list(_senders.values()):
        if sender.promising:
            sender.flush(timeout)


def forget_all() -> None:
    """In a forked process: the senders belong to the parent, and so does a thread that holds the lock."""
    global _sharing
    for sender in list(_senders.values()):
        sender.abandon()
    _sharing = threading.RLock()
    _senders.clear()
