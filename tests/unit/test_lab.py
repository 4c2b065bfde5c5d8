"""The laboratory starts; its own tests are run by `pytest lab`."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "module", ["lab.builds", "lab.mapping.remap", "lab.touches.audit", "lab.touches.page"]
)
def test_a_tool_says_how_it_is_used(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
