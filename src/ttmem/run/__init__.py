# SPDX-License-Identifier: Apache-2.0
"""`ttmem run`: runs a command under the agent and reports its memory use."""
