# SPDX-License-Identifier: Apache-2.0
"""The pieces that views are made of: lists, charts, maps, and what feeds them."""
