# SPDX-License-Identifier: Apache-2.0
"""Looks for the reasons why somebody sees nothing, or too little: one small function for each check."""
