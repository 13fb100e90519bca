# SPDX-License-Identifier: Apache-2.0
"""`python -m ttmem` is `ttmem`."""

import sys

from ttmem.cli import main

sys.exit(main())
