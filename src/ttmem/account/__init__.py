# SPDX-License-Identifier: Apache-2.0
"""The account: a pure fold from events to totals, peaks and live allocations. No clock, no I/O."""
