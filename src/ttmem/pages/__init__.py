# SPDX-License-Identifier: Apache-2.0
"""Pages in HTML: the data of a report, reduced to what a page can hold, and the file around it."""
