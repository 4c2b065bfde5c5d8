"""Addresses that no argument shows, under `vmm` on a real GPU: `hidden.c` as in tests/emu.

Its memory is plain and VMM memory, under a software budget; one case takes a managed page.
"""

import ctypes
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pump.preload import preload
from tests.conftest import Compile, clean_environment
from tests.emu.test_hidden import ANY, KNOWN, PARTS, SEEN, STILL, UNSEEN, VERIFY, VIOLATION

pytestmark = pytest.mark.gpu

SIZE = ("6", "6", "64", "24")
FEW = ("6", "6", "2", *STILL)
"""Pages so few that a move is of one."""
BUDGET = {
    "ULMS_BACKEND": "vmm",
    "ULMS_PAGE": "2MiB",
    "ULMS_GPU_MEMORY": "512MiB",
    "ULMS_GPU_MEMORY_FACTOR": "75",
}
TIMEOUT_S = 120


def library_path() -> str:
    """Where a cuBLAS may be that the loader does not find by itself."""
    wheels = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/lib"))
    folders = [*wheels, Path("/usr/local/cuda/lib64")]
    return ":".join([*map(str, folders), os.environ.get("LD_LIBRARY_PATH", "")])


@pytest.fixture(scope="module")
def binary(compiled: Compile) -> Path:
    return compiled("hidden", parts=[*PARTS, "ptx"])


def run(
    binary: Path, case: str, env: Mapping[str, str] | None, size: Sequence[str] = SIZE
) -> tuple[list[str], str]:
    """What a run computed, and all that it said; without settings it is native."""
    base = {**clean_environment(), "LD_LIBRARY_PATH": library_path()}
    limit = {"ULMS_MANAGED_LIMIT": os.environ["ULMS_MANAGED_LIMIT"]}
    words = [str(binary), case, *size]
    settings = base if env is None else preload(words, {}, base=base).environment(base)
    done = subprocess.run(
        words,
        env={**settings, **limit, **(env or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sums = [line for line in done.stdout.splitlines() if not line.startswith("counter ")]
    return sums, done.stdout + done.stderr


@cache
def natively(binary: Path, case: str, size: Sequence[str] = SIZE) -> list[str]:
    """What a run computes without the library: the same however often."""
    return run(binary, case, None, size)[0]


def counter(said: str, name: str) -> int:
    return next(
        int(row.split()[2]) for row in said.splitlines() if row.startswith(f"counter {name} ")
    )


@pytest.mark.parametrize("extra", [{}, VERIFY, KNOWN], ids=["plain", "verify", "known"])
@pytest.mark.parametrize("case", SEEN)
def test_addresses_are_followed(case: str, extra: Mapping[str, str], binary: Path) -> None:
    sums = natively(binary, case)
    found, said = run(binary, case, {**BUDGET, **extra})
    assert found == sums
    assert counter(said, "violations") == 0
    assert counter(said, "evicted_bytes") > 0


@pytest.mark.parametrize("case", ["inside", "library", "graph_copy", UNSEEN])
def test_any_address_may_be_hidden(case: str, binary: Path) -> None:
    sums = natively(binary, case)
    found, said = run(binary, case, {**BUDGET, **VERIFY, **ANY})
    assert found == sums
    assert counter(said, "violations") == 0
    assert counter(said, "evicted_bytes") > 0


def test_what_is_not_followed_is_found(binary: Path) -> None:
    sums = natively(binary, UNSEEN, FEW)
    found, said = run(binary, UNSEEN, {**BUDGET, **VERIFY, "ULMS_GPU_MEMORY": "16MiB"}, FEW)
    assert found == sums
    assert counter(said, "violations") > 0
    assert VIOLATION in said


def test_a_tensor_map_shows_its_address() -> None:
    """Maps come to kernels by value: what encodes them hides no address from the argument scan."""
    driver = ctypes.CDLL("libcuda.so.1")
    context, start = ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(start), ctypes.c_size_t(1 << 20)) == 0
    room = (ctypes.c_uint64 * 24)()
    at = (ctypes.addressof(room) + 63) // 64 * 64
    sides, box, ones = (
        (ctypes.c_uint64 * 2)(256, 256),
        (ctypes.c_uint32 * 2)(32, 32),
        (ctypes.c_uint32 * 2)(1, 1),
    )
    stride, float32 = (ctypes.c_uint64 * 1)(1024), 7
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at),
        float32,
        2,
        ctypes.c_void_p(start.value),
        sides,
        stride,
        box,
        ones,
        0,
        0,
        0,
        0,
    )
    assert driver.cuMemFree_v2(start) == 0
    if status == 801:
        pytest.skip("the device has no tensor maps")
    assert status == 0
    assert start.value in list((ctypes.c_uint64 * 16).from_address(at))
