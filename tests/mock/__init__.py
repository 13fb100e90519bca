# SPDX-License-Identifier: Apache-2.0
"""An unmodified ttnn on chips that exist on paper only: the account that ttmem's own is compared with."""
