# SPDX-License-Identifier: Apache-2.0
"""`ttmem run`: a command under the agent, and what is known of it when it ends."""
