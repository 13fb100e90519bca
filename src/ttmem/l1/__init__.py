# SPDX-License-Identifier: Apache-2.0
"""The physical L1 of a core: what lies where on it, and how much room is left below the buffers."""
