# SPDX-License-Identifier: Apache-2.0
"""Statistics over the whole time of a recording, computed from the table of all its allocations."""
