# SPDX-License-Identifier: Apache-2.0
"""What screens and scripts use: the small HTTP client, and the data they get."""
