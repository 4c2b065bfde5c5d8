"""What a search for addresses among a launch's arguments costs, beside bisection of a sorted array.

12 parameters, 675 bytes, 8 of the parameters addresses of blocks picked at random: as in
test_launch_bench.py, without anything around it. 64 such launches again and again.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import built  # noqa: E402

pytestmark = pytest.mark.unit

FEW, MANY = 10_000, 1_000_000
BASE, BLOCK = 0x7F00_0000_0000, 512
TIMES = 1 << 15
ROUNDS = 9

DECLARATIONS = """
struct ledger *scan_world(uint64_t base, unsigned long blocks);
uint64_t loop_scan(struct ledger *, unsigned times);
uint64_t loop_bisect(const uint64_t *starts, size_t n, unsigned times);
"""

ffi = FFI()
ffi.cdef(DECLARATIONS)


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The search and the loops around it, optimised as the library is."""
    target = tmp_path_factory.mktemp("scan") / "libscan.so"
    return ffi.dlopen(str(built.compiled(target, "scan")))


@pytest.mark.parametrize("blocks", [FEW, MANY])
def test_scan(benchmark: Any, lib: Any, tell: Callable[[str], None], blocks: int) -> None:
    world = lib.scan_world(BASE, blocks)
    starts = np.arange(blocks, dtype=np.uint64) * np.uint64(BLOCK) + np.uint64(BASE)
    array = ffi.from_buffer("uint64_t[]", starts)
    arguments = (array, blocks, TIMES)
    scan_ns, bisect_ns = np.inf, np.inf
    assert lib.loop_scan(world, TIMES) == lib.loop_bisect(*arguments)
    for _ in range(ROUNDS):  # by turns, as others use the machine, too
        scan_ns = min(scan_ns, each_ns(lambda: lib.loop_scan(world, TIMES)))
        bisect_ns = min(bisect_ns, each_ns(lambda: lib.loop_bisect(*arguments)))
    benchmark.extra_info |= {"fastest_ns_each": scan_ns, "bisection_ns": bisect_ns}
    benchmark.pedantic(lib.loop_scan, args=(world, TIMES), rounds=1)
    tell(f"argument scan, {blocks} blocks: {scan_ns:.0f} ns, by bisection {bisect_ns:.0f}")
    assert scan_ns < bisect_ns


def each_ns(loop: Callable[[], object]) -> float:
    """Nanoseconds a launch."""
    begin = time.perf_counter_ns()
    loop()
    return (time.perf_counter_ns() - begin) / TIMES
