# SPDX-License-Identifier: Apache-2.0
"""The live dashboard: views that turn a model into rows of styled text, and a Textual application that shows them."""
