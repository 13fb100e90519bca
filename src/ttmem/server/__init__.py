# SPDX-License-Identifier: Apache-2.0
"""The allocation server: events in over sockets, the account, and everybody's answers."""
