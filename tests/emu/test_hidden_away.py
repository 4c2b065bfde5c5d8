"""Programs whose kernels use addresses that no argument shows, while they are put away and brought
back, at times to a file: each computes what it does alone.
"""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess, Popen

import pytest

from pump.share.broker import ShareError, suspend
from tests.conftest import PATIENCE_S, Compile
from tests.emu.shared_device import ENOUGH_S, Device, binary, device, is_away
from tests.emu.test_hidden import PARTS, sums_of

__all__ = ["binary", "device"]
pytestmark = pytest.mark.emu

CASES = [
    *((case, "followed") for case in ("table", "pinned", "set", "device_graph")),
    *(("pinned", setting) for setting in ("any", "verify")),
]
BUFFERS = ("6", "6", "2", "20")
SETTINGS = {
    "followed": {},
    "any": {"ULMS_HIDDEN": "any"},
    "verify": {"ULMS_VERIFY": "1"},
}
FITS = {"ULMS_GPU_MEMORY": "24MiB", "ULMS_GPU_MEMORY_FACTOR": "100", "ULMS_PAGE": "2MiB"}
"""Just so, once it is back."""
SLOW = {"EMU_TIME": "2", "EMU_FAIL": "cuMemMap:sticky:delay=2"}
"""A page that moves is unmapped for so many milliseconds."""

Run = Callable[..., Popen[str]]


@pytest.fixture
def run(compiled: Compile, emulator_dir: Path, device: Device) -> Run:
    """A case of hidden.c."""
    program = compiled("hidden", str(emulator_dir / "libcuda.so.1"), parts=[*PARTS, "emulated"])
    library = f"{emulator_dir}:{emulator_dir / 'library' / '13'}"

    def start(case: str, backend: str, **env: str) -> Popen[str]:
        return device.run(
            [str(program), case, *BUFFERS], backend, "g", LD_LIBRARY_PATH=library, **env
        )

    return start


def ended(program: Popen[str]) -> CompletedProcess[str]:
    out, complaints = program.communicate(timeout=PATIENCE_S)
    return CompletedProcess([], program.returncode, out, complaints)


def put_away_often(device: Device, program: Popen[str]) -> int:
    """Until it ends; how often it was away."""
    times = 0
    while program.poll() is None:
        with suppress(ShareError):  # it has not joined yet, or has ended
            folder = random.choice(["", str(device.folder)])
            suspend(device.folder, "g", suspended=True, folder=folder)
            times += is_away(device, time.monotonic() + ENOUGH_S)
        with suppress(ShareError):
            suspend(device.folder, "g", suspended=False)
        time.sleep(random.uniform(0, 0.02))
    return times


@pytest.mark.parametrize(("case", "setting"), CASES)
def test_hidden_addresses_find_what_was_away(
    case: str, setting: str, device: Device, run: Run
) -> None:
    alone = ended(run(case, ""))
    program = run(
        case, "vmm", ULMS_FILE_DIR=str(device.folder), **SETTINGS[setting], **FITS, **SLOW
    )
    times = put_away_often(device, program)
    found = ended(program)
    assert (found.returncode, found.stderr) == (0, "")
    assert sums_of(found) == sums_of(alone)
    assert times > 0
