# SPDX-License-Identifier: Apache-2.0
"""Every JSON document that ttmem produces, and the text that several screens share."""
