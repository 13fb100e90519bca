# SPDX-License-Identifier: Apache-2.0
"""Read-only access to the state of the machine. Nothing here ever opens a device."""
