"""Fixtures of the tests, for those of the laboratory."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conftest import emulator_dir, pytest_collection_modifyitems, ulms_so

__all__ = ["emulator_dir", "pytest_collection_modifyitems", "ulms_so"]
