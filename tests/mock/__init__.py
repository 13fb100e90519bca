# SPDX-License-Identifier: Apache-2.0
"""An unmodified ttnn on mock devices: ttmem's account is compared with ttnn's own."""
