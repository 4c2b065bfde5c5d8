"""Calls for managed and for mapped memory are refused on memory that stands in for plain memory."""

from pathlib import Path

import pytest

from hooks.gen import shipped
from hooks.generator.row import Custom
from tests.conftest import ROOT, Compile, RunEmulated

pytestmark = pytest.mark.emu

NOTE = "of memory that was replaced as of plain memory: refused"


@pytest.mark.parametrize("limit", ["1GiB", "24MiB"], ids=["fits", "moves"])
@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_the_driver_answers_alike(
    backend: str,
    limit: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
) -> None:
    program = compiled("plain_only", str(emulator_dir / "libcuda.so.1"))
    native = run_native([program])
    memory = {} if backend == "observe" else {"ULMS_GPU_MEMORY": limit}
    done = run_emulated([program], {"ULMS_BACKEND": backend, **memory})
    assert (native.returncode, native.stdout.count("\n0 bytes changed")) == (0, 4)
    assert (done.stdout, done.returncode) == (native.stdout, 0), done.stderr


def test_each_such_row_is_called() -> None:
    text = (ROOT / "tests/programs/plain_only.c").read_text(encoding="utf-8")
    noted = [
        row.symbol
        for row in shipped().of("cuda")
        if isinstance(row.treatment, Custom) and row.treatment.note == NOTE
    ]
    assert len(noted) == 10
    assert [symbol for symbol in noted if f"SAY({symbol}(" not in text] == []
