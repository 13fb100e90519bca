# SPDX-License-Identifier: Apache-2.0
"""What goes over the sockets and into files: records to events and back. Pure, except for endpoint."""
