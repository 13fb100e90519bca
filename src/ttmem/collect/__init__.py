# SPDX-License-Identifier: Apache-2.0
"""Code that runs inside the workload. Standard library only, cheap to import, never disturbs the workload."""
