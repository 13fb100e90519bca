# SPDX-License-Identifier: Apache-2.0
"""Screens: data from the API to text. Nothing here knows where the data came from."""
