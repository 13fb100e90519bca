# SPDX-License-Identifier: Apache-2.0
"""Event files: written while events are applied, read to apply them again."""
