# SPDX-License-Identifier: Apache-2.0
"""The dashboard's views, one module for each number key."""
