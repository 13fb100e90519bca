# SPDX-License-Identifier: Apache-2.0
"""Recordings: written while rings and events are read, opened again at any moment."""
