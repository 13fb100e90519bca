# SPDX-License-Identifier: Apache-2.0
"""Hostile clients of a shared server, one program each: `python -m tests.attacks.NAME SOCKET ...`.

They connect only to the given Unix socket.
"""
