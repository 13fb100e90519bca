# SPDX-License-Identifier: Apache-2.0
"""Screens: renders JSON documents as text."""
