# SPDX-License-Identifier: Apache-2.0
"""Analyses of an account: why an allocation failed, what to change, who holds what. No I/O."""
