"""A library's constructor or destructor uses CUDA while the loader holds its lock."""

import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

DEVICE = {"EMU_MEMORY": "1GiB"}
LIMITS = {"observe": "1GiB", "um": "32MiB", "vmm": "32MiB"}
BOUND_S = 60
"""A hang is told after so long; each run takes a second."""

Load = Callable[[str, str, str], str]


@pytest.fixture
def load(
    compiled: Compile, run_emulated: RunEmulated, run_native: RunEmulated, emulator_dir: Path
) -> Load:
    """Loads the library under a backend; what was printed, which is what is printed without us.

    Memory of one library stays plain, so that call stacks are looked at.
    """
    blas = emulator_dir / "library" / "13"
    libraries = [str(emulator_dir / "libcuda.so.1"), str(blas / "libcublas.so.13")]
    flags = [*libraries, f"-Wl,-rpath,{blas}", "-ldl"]
    program = compiled("constructor", *flags, "-rdynamic")
    plugin = compiled("constructor", *flags, "-DPLUGIN", shared=True)

    def run(backend: str, where: str, first: str) -> str:
        words = [program, plugin, where, first]
        plain = run_native(words, DEVICE)
        assert (plain.returncode, plain.stderr) == (0, "")
        env = {
            "ULMS_BACKEND": backend,
            "ULMS_GPU_MEMORY": LIMITS[backend],
            "ULMS_PLAIN": "libcublas",
        }
        try:
            done = run_emulated(words, DEVICE | env, timeout=BOUND_S)
        except subprocess.TimeoutExpired as hang:
            pytest.fail(f"hangs: {hang.stdout!r}")
        computed = [line for line in done.stdout.splitlines() if not line.startswith("counter ")]
        assert (done.returncode, done.stderr) == (0, "")
        assert computed == plain.stdout.splitlines()
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("where", "first"),
    [
        *product(["own", "joined", "closing"], ["program", "constructor"]),
        ("listing", "program"),  # functions are found in the list, at the first call of one
    ],
)
@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_work_over_the_budget_under_the_loaders_lock(
    backend: str, where: str, first: str, load: Load
) -> None:
    """No operation was let go because its pages did not come."""
    counters = counters_in(load(backend, where, first))
    assert counters["launches"] >= 48
    assert counters["short_operations"] == 0
    assert (counters["evicted_bytes"] > 0) == (backend != "observe")
