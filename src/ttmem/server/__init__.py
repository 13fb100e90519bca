# SPDX-License-Identifier: Apache-2.0
"""The allocation server: reads events from sockets, keeps the account, and answers requests."""
