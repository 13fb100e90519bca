# SPDX-License-Identifier: Apache-2.0
"""Every JSON document that ttmem gives out, and the text forms that more than one screen uses."""
