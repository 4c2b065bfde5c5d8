"""Memory of another process is in the ledger as long as it can be used, and free of charge."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MIB = 1 << 20
IPC = 6  # enum memory_kind, csrc/types.h
PLAIN, MAPPED = f"{3 * MIB}/0/{IPC}", f"{4 * MIB}/0/{IPC}"


def test_imports(compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> None:
    """The limit is what the other process holds, in grains of 2 MiB: it is held to it by itself."""
    program = compiled("imports", str(emulator_dir / "libcuda.so.1"))
    plain = run_emulated([program], preloaded=False)
    assert (plain.returncode, plain.stderr) == (0, "")
    done = run_emulated([program], {"ULMS_GPU_MEMORY": f"{8 * MIB}"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"opened 0 8 {PLAIN}",
        "closed 0 8",
        f"mapped 0 16 {MAPPED}",
        f"released 0 16 {MAPPED}",
        "unmapped 0 16",
    ]
