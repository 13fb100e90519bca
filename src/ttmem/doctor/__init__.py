# SPDX-License-Identifier: Apache-2.0
"""Checks that find out why ttmem shows no data, or too little. One small function for each check."""
