"""Kernels that are trusted by their machine code (ULMS_HIDDEN=read).

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
TRUSTED = ("adds", "gathers", "reloads")
HOWS = (*TRUSTED, "numbers", "follows", "damaged")
BUFFERS = 3
MANY = 6
"""Three more than fit in the budget."""
READ = {"ULMS_HIDDEN": "read"}
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


@pytest.mark.parametrize(
    ("how", "env", "trusts"),
    [("adds", {}, False), *((how, READ, how in TRUSTED) for how in HOWS)],
)
def test_a_kernel_is_trusted_once_its_code_was_read(
    how: str,
    env: Mapping[str, str],
    trusts: bool,
    program: Path,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    tmp_path: Path,
) -> None:
    """What it only reads is then read."""
    words = [program, KERNELS, how, str(BUFFERS)]
    native = run_native(words)
    assert (native.returncode, native.stderr) == (0, "")
    done = run_emulated(words, {**env, "ULMS_TRACE": str(tmp_path / "trace")})
    assert (done.returncode, done.stdout, done.stderr) == (0, native.stdout, "")
    for roams, modes in last_launches(read(tmp_path / "trace"), 2 * BUFFERS):
        assert roams is not trusts
        assert (TouchMode.READ in modes) == trusts


@pytest.mark.parametrize("how", [*HOWS, "late"])
def test_what_is_away_need_not_be_mapped(
    how: str, program: Path, run_emulated: RunEmulated, run_native: RunEmulated
) -> None:
    """One whose code is still being read may use any page: what comes after it does not pay."""
    words = [program, KERNELS, how, str(MANY)]
    done = run_emulated(words, {**VMM, **READ, "ULMS_LOG_LEVEL": "INFO"})
    assert (done.returncode, done.stdout) == (0, run_native(words).stdout), done.stderr
    assert (SAID in done.stderr) == (how not in (*TRUSTED, "late"))
    assert (WHY.get(how, SAID) in done.stderr) == (SAID in done.stderr)


@pytest.mark.parametrize("how", ["adds", "gathers"])
def test_what_is_only_read_is_not_written(
    how: str, program: Path, run_emulated: RunEmulated
) -> None:
    done = run_emulated([program, KERNELS, how, str(MANY)], {**VMM, **READ, "ULMS_VERIFY": "1"})
    assert (done.returncode, done.stderr) == (0, "")


def test_no_kernel_is_read_where_the_driver_compiles(
    program: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    env = {**READ, "CUDA_FORCE_PTX_JIT": "1", "ULMS_TRACE": str(tmp_path / "trace")}
    done = run_emulated([program, KERNELS, "adds", str(BUFFERS)], env)
    assert (done.returncode, done.stderr.count("kernels are not read")) == (0, 1)
    assert all(roams for roams, _ in last_launches(read(tmp_path / "trace"), BUFFERS))
