"""What recording costs the program's thread, beside the same records through stdio."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import built  # noqa: E402

RECORDS = 2000  # a round fits into a quarter of the ring
COUNTS = 1_000_000
ROUNDS = 100
RECORD_NS = 60
"""A record may cost so much; measured against the fastest round, as others use the machine too."""


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("trace_loop")
    library = built.compiled(folder / "libtrace_loop.so", "trace")
    ffi = FFI()
    ffi.cdef(
        """
        bool trace_open(const char *path, const char *header);
        void trace_close(void);
        void loop_wait(void);
        uint64_t loop_drops(void);
        void loop_ops(uint32_t n, uint32_t touches);
        void loop_retired(uint32_t n);
        void loop_stats(uint32_t n);
        void loop_atomic(uint32_t n);
        bool stdio_open(const char *path);
        bool stdio_close(void);
        void stdio_ops(uint32_t n, uint32_t touches);
        void stdio_retired(uint32_t n);
        """
    )
    lib: Any = ffi.dlopen(str(library))
    assert lib.trace_open(str(folder / "bench.trace").encode(), b"{}")
    assert lib.stdio_open(str(folder / "bench.stdio").encode())
    yield lib
    assert lib.stdio_close()
    lib.trace_close()
    assert lib.loop_drops() == 0


Tell = Callable[[str], None]


def other_ns(loop: Any, count: int, *more: int, rounds: int = ROUNDS) -> float:
    """Nanoseconds each of `count` takes in the fastest round of a loop to compare with."""
    took = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        loop(count, *more)
        took.append(time.perf_counter_ns() - begin)
    return min(took) / count


def fastest_ns(benchmark: Any, records: int) -> float:
    """Nanoseconds a record in the fastest round; kept with the benchmark."""
    ns = float(benchmark.stats.stats.min) * 1e9 / records
    benchmark.extra_info["fastest_ns_each"] = ns
    return ns


@pytest.mark.unit
@pytest.mark.parametrize("touches", [0, 3, 8])
def test_operation(benchmark: Any, loops: Any, tell: Tell, touches: int) -> None:
    arguments = (RECORDS, touches)
    benchmark.pedantic(loops.loop_ops, args=arguments, setup=loops.loop_wait, rounds=ROUNDS)
    ns, stdio_ns = fastest_ns(benchmark, RECORDS), other_ns(loops.stdio_ops, *arguments)
    tell(f"trace, an operation with {touches} touches: {ns:.0f} ns, by stdio {stdio_ns:.0f}")
    assert ns <= RECORD_NS


@pytest.mark.unit
def test_retirement(benchmark: Any, loops: Any, tell: Tell) -> None:
    benchmark.pedantic(loops.loop_retired, args=(RECORDS,), setup=loops.loop_wait, rounds=ROUNDS)
    ns, stdio_ns = fastest_ns(benchmark, RECORDS), other_ns(loops.stdio_retired, RECORDS)
    tell(f"trace, a retirement: {ns:.0f} ns, by stdio {stdio_ns:.0f}")
    assert ns <= RECORD_NS


@pytest.mark.unit
def test_counter(benchmark: Any, loops: Any, tell: Tell) -> None:
    benchmark.pedantic(loops.loop_stats, args=(COUNTS,), rounds=20)
    ns, atomic_ns = fastest_ns(benchmark, COUNTS), other_ns(loops.loop_atomic, COUNTS, rounds=20)
    tell(f"a counter: {ns:.1f} ns, by one atomic for all threads {atomic_ns:.1f}")
    assert ns <= RECORD_NS
