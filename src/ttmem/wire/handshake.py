# SPDX-License-Identifier: Apache-2.0
"""Messages between client and server other than events: the hello, and the sync that confirms what was applied."""

from __future__ import annotations

from struct import error as StructError
from typing import NamedTuple

from ttmem.model.kinds import Confidence
from ttmem.wire import client_records as native
from ttmem.wire.client_records import NativeError

ANSWER_SIZE = native.NUMBER_FORM.size  # of everything a server sends


class Hello(NamedTuple):
    """The first message of a client: the name of its source and its confidence."""

    version: int
    source: str
    confidence: Confidence


def hello(source: str, confidence: Confidence) -> bytes:
    body = bytes([confidence]) + native.packed_text(source)
    return native.body_record(native.MAGIC, native.VERSION, body, native.HELLO_MARK)


def read_hello(record: bytes) -> Hello:
    if record[1] != native.HELLO_MARK:
        raise NativeError("this is neither a legacy record nor a ttmem hello")
    version = native.device_in(record)
    if version != native.VERSION:
        raise NativeError(f"the client speaks version {version} of the protocol, this server version {native.VERSION}")
    body = native.body_in(record)
    try:
        hello = Hello(version, body[1:65].decode("utf-8", "replace"), Confidence(body[0]))
    except (ValueError, IndexError):
        raise NativeError("the hello does not say what the client is") from None
    if not hello.source or hello.source == "legacy":
        raise NativeError(f"a client cannot call itself {hello.source!r}")
    return hello


def welcome() -> bytes:
    return native.number_record(native.WELCOME, native.VERSION, 0)


def sync(token: int) -> bytes:
    """A request to the server to confirm when everything sent so far has been applied."""
    return native.number_record(native.SYNC, 0, token)


def synced(token: int) -> bytes:
    return native.number_record(native.SYNCED, 0, token)


def sync_token(record: bytes) -> int:
    try:
        return native.value_in(record)
    except StructError:
        raise NativeError("a sync without a token") from None
