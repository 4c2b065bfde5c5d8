"""torch.multiprocessing on a real GPU: a tensor that moves is shared as any other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pump.paths import library

pytestmark = pytest.mark.gpu

PROGRAM = Path(__file__).parent / "programs" / "shared.py"
PATIENCE_S = 180


def run(backend: str | None, **more: str) -> subprocess.CompletedProcess[str]:
    """Both processes under the library, or neither; at half of the memory that they need."""
    ours = {
        "LD_PRELOAD": str(library()),
        "ULMS_BACKEND": backend or "",
        "ULMS_GPU_MEMORY": "512MiB",
        "ULMS_MANAGED_LIMIT": "4GiB",
    }
    return subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, **(ours if backend else {}), **more},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("page", ["2MiB", "8MiB"])
def test_tensors_are_shared_under_vmm(page: str) -> None:
    done = run("vmm", ULMS_PAGE=page)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stdout + done.stderr


def test_they_are_without_us() -> None:
    done = run(None)
    assert (done.returncode, done.stdout) == (0, "OK\n"), done.stdout + done.stderr


def test_um_names_the_setting() -> None:
    """PyTorch gets the driver's refusal, the user one line."""
    done = run("um")
    lines = [line for line in done.stderr.splitlines() if "cuIpcGetMemHandle" in line]
    assert done.returncode != 0
    assert len(lines) == 1
    assert "ULMS_BACKEND=vmm" in lines[0]
