# SPDX-License-Identifier: Apache-2.0
"""Compares two runs: what they held at a moment, and the figures of the whole run."""
