# SPDX-License-Identifier: Apache-2.0
"""The parts that views are made of: lists, charts, maps, and what loads their data."""
