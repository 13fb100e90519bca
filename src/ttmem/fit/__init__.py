# SPDX-License-Identifier: Apache-2.0
"""`ttmem fit`: runs a command on mock devices of a board and finds out whether its memory is enough."""
