# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several unit tests share."""

from tests.scripted_agent import agent, agents, reader  # noqa: F401
