# SPDX-License-Identifier: Apache-2.0
"""The senders of this process: clients that report for the same source share one.

To the server a name is one source, and what one sender has in its table replaces all that another one had.
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
    """The sender of this process for a source; each who asks for it leaves it."""
    key = source, confidence, tuple(paths or search_paths())
    with _sharing:
        sender = _senders.get(key)
        if sender is not None:
            sender.users += 1  # first: a collection may let go of the last one who shared it
            if sender.open:
                return sender
        sender = _senders[key] = Sender(paths, hello(source, confidence))
        return sender


def leave(sender: Sender) -> None:
    """One who shared it does so no more. After the last one it stops once everything is sent."""
    with _sharing:
        sender.users -= 1
        if not sender.users:
            sender.close()


def flush_all(timeout: float) -> None:
    """The last events of a process that ends well are worth a moment, if somebody takes them."""
    for sender in list(_senders.values()):
        if sender.promising:
            sender.flush(timeout)


def forget_all() -> None:
    """In a forked process: all are the parent's, and so is whoever holds the lock."""
    global _sharing
    for sender in list(_senders.values()):
        sender.abandon()
    _sharing = threading.RLock()
    _senders.clear()
