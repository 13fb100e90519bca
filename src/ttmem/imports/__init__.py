# SPDX-License-Identifier: Apache-2.0
"""Converts files that ttnn wrote without ttmem to events: graph captures, reports and report databases."""
