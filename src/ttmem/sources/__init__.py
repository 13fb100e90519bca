# SPDX-License-Identifier: Apache-2.0
"""Read-only looks at the machine. Nothing here ever opens a device."""
