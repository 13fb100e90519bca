# SPDX-License-Identifier: Apache-2.0
"""Clients of a shared server that mean harm, one program each: `python -m tests.attacks.NAME SOCKET ...`.

They connect to the Unix socket that they are given and to nothing else.
"""
