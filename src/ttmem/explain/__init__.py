# SPDX-License-Identifier: Apache-2.0
"""Why tt-metal refused: its messages, what was live at that moment, and what would help. Pure, no I/O."""
