"""Remapped memory in the place of plain memory: programs do not see it, and it moves.

`um_memory.c` prints what a program can see, which must be the same without ulms.so, and lines that
begin with "is", which tell of managed memory only.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

VMM = {"ULMS_BACKEND": "vmm"}

Seen = Callable[..., str]


@pytest.fixture
def seen(compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> Seen:
    """Runs a part of um_memory.c both ways, compares, and returns what was logged."""
    binary = compiled("um_memory", str(emulator_dir / "libcuda.so.1"))

    def visible(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("is ")]

    def run(*words: str, env: Mapping[str, str] | None = None) -> str:
        under = run_emulated([binary, *words], {**VMM, **(env or {})})
        assert under.returncode == 0, under.stdout + under.stderr
        outside = {name: value for name, value in (env or {}).items() if name != "EMU_FAIL"}
        native = run_emulated([binary, *words], outside, preloaded=False)
        assert (native.returncode, native.stderr) == (0, "")
        assert visible(under.stdout) == visible(native.stdout)
        return under.stderr

    return run


@pytest.mark.parametrize("part", ["kinds", "attributes", "async", "capture", "contexts"])
def test_the_program_is_told_of_plain_memory(part: str, seen: Seen) -> None:
    assert seen(part) == ""


@pytest.mark.parametrize("part", ["attributes", "async", "contexts"])
@pytest.mark.parametrize(
    "call",
    [
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemUnmap",
        "cuMemAddressReserve",
        "cuMemAddressFree",
    ],
)
def test_failures_of_our_own_calls_do_not_show(call: str, part: str, seen: Seen) -> None:
    for after in range(3):
        seen(part, env={"EMU_FAIL": f"{call}:after={after}:sticky"})


def test_a_device_without_host_handles_is_left_alone(seen: Seen) -> None:
    warning = seen("attributes", env={"EMU_FAIL": "cuDeviceGetAttribute:sticky"})
    assert warning.startswith("[ulms] WARN: device 0 cannot map host memory by handles")


def test_ordered_policies_are_refused_in_one_line(seen: Seen) -> None:
    assert seen("attributes", env={"ULMS_POLICY": "lru"}) == (
        "[ulms] WARN: ULMS_POLICY=lru needs memory that the driver pages: with ULMS_BACKEND=vmm "
        "it is ahead\n"
    )
