# SPDX-License-Identifier: Apache-2.0
"""Screens: JSON documents as text."""
