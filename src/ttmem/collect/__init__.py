# SPDX-License-Identifier: Apache-2.0
"""What runs inside the workload. Standard library only, nothing heavy at import, never in the workload's way."""
