"""Drivers before CUDA 12.4 tell no parameter layouts: launches are scanned without one.

An image of the emulated device tells none either, so that every launch here is blind.
"""

import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from pump.trace import OpFlag, OpKind, read

pytestmark = pytest.mark.emu

POINTERS = 8
VERSIONS = [11020, 11080, 12020, 12030, 13000]
"""Functions are given by name from 11.3 on, kernels tell names from 12.3, layouts from 12.4."""
SINCE = {"page": 0, "stack": 0, "kernel": 12000, "extra": 0, "capture": 12000, "node": 12000}
CASES = [(form, version) for form, version in product(SINCE, VERSIONS) if version >= SINCE[form]]
QUESTIONS = {"kernel": "cuKernelGetParamInfo", "extra": "cuFuncGetParamInfo"}
"""Of the forms that launch a CUkernel and a CUfunction: which question has the answer."""


def own_words(stderr: str) -> list[str]:
    """Without the emulator's remarks on what the version it plays does not have."""
    return [line for line in stderr.splitlines() if not line.startswith("emu: ")]


@pytest.fixture(scope="module")
def program(compiled: Callable[..., Path], emulator_dir: Path) -> Path:
    return compiled("old_driver", str(emulator_dir / "libcuda.so.1"))


@pytest.mark.parametrize(("form", "version"), CASES)
def test_every_pointer_is_found(
    form: str,
    version: int,
    program: Path,
    run_emulated: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    driver = {"EMU_DRIVER_VERSION": str(version)}
    plain = run_emulated([program, form], driver, preloaded=False)
    assert (plain.stdout, plain.returncode) == ("1 2 3 4 5 6 7 8 done\n", 0)
    done = run_emulated([program, form], {**driver, "ULMS_TRACE": str(tmp_path / "trace")})
    assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)
    assert own_words(plain.stderr) == []
    said = own_words(done.stderr)
    assert len(said) == (version < 12040)
    assert all(line.startswith("[ulms] WARN: the driver, for CUDA 1") for line in said)

    trace = read(tmp_path / "trace")
    kind = OpKind.GRAPH if form in ("capture", "node") else OpKind.LAUNCH
    launches = trace.operations[trace.operations["kind"] == kind]
    (operation,) = [row for row in launches if not row["flags"] & OpFlag.CAPTURED]
    born = trace.allocations[trace.allocations["born"]]
    assert len(born) == POINTERS
    assert sorted(trace.touches_of(operation)["start"]) == sorted(born["start"])
    assert set(trace.functions.values()) == {"scatter"}
    if kind == OpKind.LAUNCH:
        assert bool(operation["flags"] & OpFlag.BLIND) == (version < 12040)


@pytest.mark.parametrize("told", [0, 3])
@pytest.mark.parametrize("form", QUESTIONS)
def test_a_question_that_fails_is_no_answer(
    form: str,
    told: int,
    program: Path,
    run_emulated: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    """Neither that there are no parameters, nor that those told so far are all."""
    failure = {"EMU_FAIL": f"{QUESTIONS[form]}:after={told}:error=2:sticky"}
    done = run_emulated([program, form], {**failure, "ULMS_TRACE": str(tmp_path / "trace")})
    assert (done.stdout, done.returncode) == ("1 2 3 4 5 6 7 8 done\n", 0)
    trace = read(tmp_path / "trace")
    (launch,) = trace.operations[trace.operations["kind"] == OpKind.LAUNCH]
    assert launch["flags"] & OpFlag.BLIND
    born = trace.allocations[trace.allocations["born"]]
    assert sorted(trace.touches_of(launch)["start"]) == sorted(born["start"])
