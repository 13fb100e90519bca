# SPDX-License-Identifier: Apache-2.0
"""Fail a CI job when a model leaks or takes more memory than its budget.

    python examples/ci_budget.py python examples/model.py

`ttmem run` does the work and has an exit code for each verdict; this script prints the figures for
reviewers. Device memory is the same on tt-metal's mock devices, so such a job needs no accelerator.
"""

import json
import subprocess
import sys
import tempfile

DRAM_BUDGET, L1_BUDGET = "16MiB", "2MiB"
VERDICTS = {3: "a leak", 4: "over budget", 5: "not seen completely"}

with tempfile.NamedTemporaryFile(suffix=".json") as report:
    done = subprocess.run(
        ["ttmem", "run", "--quiet", "--json", report.name, "--fail-on-leak",
         "--max-dram", DRAM_BUDGET, "--max-l1", L1_BUDGET, "--", *sys.argv[1:]]
    )  # fmt: skip
    try:
        run = json.load(report)
    except ValueError:
        sys.exit(f"there is no report; ttmem run ended with exit code {done.returncode}")

for peak in run["peaks"]:
    if peak.get("pool"):
        print(f"on each of {', '.join(peak['chips'])}: {peak['pool']} at most {peak['per_chip']:,} B")
for pool in run["breakdown"]["op"]:
    print(f"at the peak, {pool['pool']}:")
    for row in pool["rows"][:5]:
        print(f"{row['per_chip']:>12,} B per chip  {row['op'] or 'no operation'}")
print("verdict:", VERDICTS.get(done.returncode, f"exit code {done.returncode}" if done.returncode else "within budget"))
sys.exit(done.returncode)
