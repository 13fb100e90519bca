# SPDX-License-Identifier: Apache-2.0
"""The physical L1 of a core: what occupies it, and how much room is left below the buffers."""
