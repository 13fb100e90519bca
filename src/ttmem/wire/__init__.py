# SPDX-License-Identifier: Apache-2.0
"""Records on sockets and in files: decodes them to events and encodes events. Pure, except for endpoint."""
