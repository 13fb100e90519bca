# SPDX-License-Identifier: Apache-2.0
"""What ttnn recorded without ttmem, as events: its graph captures, reports and report databases."""
