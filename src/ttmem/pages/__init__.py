# SPDX-License-Identifier: Apache-2.0
"""Pages in HTML: data of reports and comparisons, reduced to what a page can hold; files and a server for them."""
