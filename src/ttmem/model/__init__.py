# SPDX-License-Identifier: Apache-2.0
"""The shared vocabulary: kinds, units, identities, events, boards, geometry, core sets, and limits on their values."""
