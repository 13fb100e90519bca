# SPDX-License-Identifier: Apache-2.0
"""Analyses of an account: why an allocation failed, what to change, what holds memory. No I/O."""
