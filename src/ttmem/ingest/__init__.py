# SPDX-License-Identifier: Apache-2.0
"""Events in: sockets and agents' rings are read and folded into the account."""
