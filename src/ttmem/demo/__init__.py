# SPDX-License-Identifier: Apache-2.0
"""`ttmem demo`: a server, simulated workloads in processes of their own, and the dashboard."""
