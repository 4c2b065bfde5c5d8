"""Kernels that are trusted by their machine code.

The emulated device runs kernels of the program's, whose image is a cubin with code of
`tests/reference/kernels.txt` that does the same.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pump.trace import OpFlag, OpKind, TouchMode, Trace, read
from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

KERNELS = Path(__file__).parents[1] / "reference" / "kernels.txt"
HOWS = ("adds", "gathers", "library", "reloads", "numbers", "follows", "damaged")
TRUSTED = ("adds", "gathers", "library", "reloads", "late")
BUFFERS = 6
"""Of a page each: three more than fit in the budget."""
VMM = {"ULMS_BACKEND": "vmm", "ULMS_GPU_MEMORY": "12MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
SAID = "may follow addresses that lie in memory"
WHY = {"follows": "(an address was loaded)", "damaged": "(an instruction that is not known)"}


@pytest.fixture(scope="module")
def program(compiled: Compile, emulator_dir: Path) -> Path:
    return compiled("read_kernels", "-D_GNU_SOURCE", str(emulator_dir / "libcuda.so.1"))


def last_launches(trace: Trace, n: int) -> list[tuple[bool, list[int]]]:
    """Whether each roams, and the modes of its touches."""
    launches = trace.operations[trace.operations["kind"] == OpKind.LAUNCH][-n:]
    return [
        (bool(row["flags"] & OpFlag.ROAMS), trace.touches_of(row)["mode"].tolist())
        for row in launches
    ]


@pytest.mark.parametrize("how", [*HOWS, "late"])
def test_a_kernel_is_trusted_once_its_code_was_read(
    how: str, program: Path, run_emulated: RunEmulated, run_native: RunEmulated, tmp_path: Path
) -> None:
    """What it only reads is then read, and what is away need not be mapped for it.

    While the code is still being read the kernel may use any page: what comes after does not pay.
    """
    words = [program, KERNELS, how, str(BUFFERS)]
    trace = tmp_path / "trace"
    env = {**VMM, "ULMS_LOG_LEVEL": "INFO", "ULMS_TRACE": str(trace)}
    native, done = run_native(words), run_emulated(words, env)
    assert (native.returncode, native.stderr) == (0, "")
    assert (done.returncode, done.stdout) == (0, native.stdout), done.stderr
    for roams, modes in last_launches(read(trace), 1 if how == "late" else 2 * BUFFERS):
        assert roams is (how not in TRUSTED)
        assert (TouchMode.READ in modes) == (how in TRUSTED)
    assert (SAID in done.stderr) == (how not in TRUSTED)
    assert (WHY.get(how, SAID) in done.stderr) == (SAID in done.stderr)


@pytest.mark.parametrize("how", ["adds", "gathers"])
def test_what_is_only_read_is_not_written(
    how: str, program: Path, run_emulated: RunEmulated
) -> None:
    done = run_emulated([program, KERNELS, how, str(BUFFERS)], {**VMM, "ULMS_VERIFY": "1"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("env", [{"ULMS_HIDDEN": "any"}, {"CUDA_FORCE_PTX_JIT": "1"}])
def test_no_kernel_is_read_in_vain_or_where_the_driver_compiles(
    env: Mapping[str, str], program: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    words = [program, KERNELS, "adds", str(BUFFERS)]
    trace = {"ULMS_TRACE": str(tmp_path / "trace"), "ULMS_LOG_LEVEL": "INFO"}
    done = run_emulated(words, {**env, **trace})
    said = done.stderr.count("kernels are not read")
    assert (done.returncode, said) == (0, "ULMS_HIDDEN" not in env)
    assert all(roams for roams, _ in last_launches(read(tmp_path / "trace"), BUFFERS))
