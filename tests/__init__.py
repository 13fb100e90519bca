# SPDX-License-Identifier: Apache-2.0
"""Tests, and the modules that they share. An assertion that fails in one of these also shows its values."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{path.stem}" for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
)
