"""What a look-up in the ledger costs, beside a sorted array, std::map and SortedDict.

Blocks of 512 bytes to 1 MiB side by side, in one allocation, entered in random order. `hot`
pointers come again and again as in a step of training; `any` are drawn from all blocks, so that
with a million of them the processor's caches are what is measured.
"""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from cffi import FFI
from sortedcontainers import SortedDict

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import built  # noqa: E402

pytestmark = pytest.mark.unit

HERE = Path(__file__).parent

FEW, MANY = 10_000, 1_000_000
SETS = {"hot": 64, "step": 1024, "any": 1 << 20}
TIMES = 1 << 20
ROUNDS = 7
LOOKUP_NS, GROWTH = 25, 1.5
"""A hot look-up among FEW may cost so much; among MANY so many times what it costs among FEW."""
CHANGE_NS = 1000
"""Adding or removing one of MANY blocks may cost so much."""
TEST_NS = 3
"""Telling that a value is no address may cost so much."""

Tell = Callable[[str], None]
Numbers = npt.NDArray[np.uint64]
DECLARATIONS = """
struct ledger *ledger_new(void);
void loop_fill(struct ledger *, const uint64_t *, const uint64_t *, size_t, const uint32_t *);
void loop_replace(struct ledger *, const uint64_t *, const uint64_t *, size_t, const uint32_t *);
uint64_t loop_extent(struct ledger *, const uint64_t *, size_t, size_t);
uint64_t loop_may_hold(struct ledger *, const uint64_t *, size_t, size_t);
uint64_t loop_bsearch(const uint64_t *, const uint64_t *, size_t, const uint64_t *, size_t, size_t);
"""
MAP_DECLARATIONS = """
struct map *map_new(const uint64_t *, const uint64_t *, size_t, const uint32_t *);
void map_delete(struct map *);
uint64_t loop_map(const struct map *, const uint64_t *, size_t, size_t);
"""

ffi = FFI()
ffi.cdef(DECLARATIONS + MAP_DECLARATIONS)


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Any:
    target = tmp_path_factory.mktemp("loops") / "libloops.so"
    return ffi.dlopen(str(built.compiled(target, "ledger")))


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compare with std::map")
    target = str(tmp_path_factory.mktemp("maps") / "libmaps.so")
    command = ["g++", "-O2", "-fPIC", "-shared", "-o", target, str(HERE / "loops.cpp")]
    subprocess.run(command, check=True)
    return ffi.dlopen(target)


def words(array: Any, c_type: str = "uint64_t") -> Any:
    """The array's memory, as C sees it."""
    return ffi.from_buffer(f"{c_type}[]", array)


class World(NamedTuple):
    """Live blocks, and the order they were entered in."""

    starts: Numbers
    ends: Numbers
    order: npt.NDArray[np.uint32]

    @property
    def blocks(self) -> tuple[Any, Any, int, Any]:
        """As the loops take them."""
        count = len(self.starts)
        return words(self.starts), words(self.ends), count, words(self.order, "uint32_t")

    def pointers(self, count: int) -> tuple[Numbers, int]:
        """Addresses inside `count` blocks, and the sum of those blocks' starts over TIMES."""
        dice = np.random.default_rng(2)
        picks = dice.integers(0, len(self.starts), count)
        inside = dice.integers(0, 32, count).astype(np.uint64) * np.uint64(16)
        total = int(self.starts[picks].sum(dtype=np.uint64)) * (TIMES // count)
        return self.starts[picks] + inside, total % 2**64


@lru_cache
def world(live: int) -> World:
    dice = np.random.default_rng(1)
    sizes = dice.integers(1, 2049, live).astype(np.uint64) * np.uint64(512)
    ends = np.uint64(0x7F00_0000_0000) + np.cumsum(sizes, dtype=np.uint64)
    return World(ends - sizes, ends, dice.permutation(live).astype(np.uint32))


@lru_cache
def ledger(lib: Any, live: int) -> Any:
    made = lib.ledger_new()
    lib.loop_fill(made, *world(live).blocks)
    return made


def fastest_ns(benchmark: Any, count: int) -> float:
    """Nanoseconds each of `count` took in the fastest round; kept with the benchmark."""
    ns = float(benchmark.stats.stats.min) * 1e9 / count
    benchmark.extra_info["fastest_ns_each"] = ns
    return ns


class Measure:
    """Look-ups: told, by what they search, among how many, and which pointers."""

    def __init__(self, benchmark: Any, tell: Tell) -> None:
        self.benchmark, self.tell = benchmark, tell

    def loop(
        self, what: str, group: str, loop: Any, arguments: tuple[Any, ...], total: int
    ) -> float:
        """Nanoseconds a look-up; the sum of the loop's answers must be `total`."""
        got = self.benchmark.pedantic(loop, args=arguments, rounds=ROUNDS, warmup_rounds=1)
        assert got == total
        return self.told(what, group, TIMES)

    def told(self, what: str, group: str, count: int) -> float:
        """Nanoseconds each of `count` took."""
        self.benchmark.group = group
        ns = fastest_ns(self.benchmark, count)
        self.tell(f"look-up, {group}: {ns:.1f} ns, {what}")
        return ns


@pytest.fixture
def measure(benchmark: Any, tell: Tell) -> Measure:
    """Times what the test searches."""
    return Measure(benchmark, tell)


hot_ns: list[float] = []
"""Of a look-up among FEW, when that has been measured."""


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("live", [FEW, MANY])
def test_ledger(measure: Measure, lib: Any, live: int, kind: str) -> None:
    pointers, total = world(live).pointers(SETS[kind])
    arguments = (ledger(lib, live), words(pointers), SETS[kind], TIMES)
    ns = measure.loop("ledger", f"{live} {kind}", lib.loop_extent, arguments, total)
    if kind == "hot" and live == FEW:
        hot_ns.append(ns)
        assert ns <= LOOKUP_NS
    if kind == "hot" and live == MANY:
        assert ns <= GROWTH * min(hot_ns, default=LOOKUP_NS)


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("live", [FEW, MANY])
def test_sorted_array(measure: Measure, lib: Any, live: int, kind: str) -> None:
    here = world(live)
    pointers, total = here.pointers(SETS[kind])
    starts = np.append(here.starts, here.ends[-1])
    arguments = (words(starts), words(here.ends), live, words(pointers), SETS[kind], TIMES)
    measure.loop("sorted array", f"{live} {kind}", lib.loop_bsearch, arguments, total)


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("live", [FEW, MANY])
def test_std_map(measure: Measure, maps: Any, live: int, kind: str) -> None:
    here = world(live)
    pointers, total = here.pointers(SETS[kind])
    tree = maps.map_new(*here.blocks)
    arguments = (tree, words(pointers), SETS[kind], TIMES)
    measure.loop("std::map", f"{live} {kind}", maps.loop_map, arguments, total)
    maps.map_delete(tree)


@pytest.mark.parametrize("live", [FEW, MANY])
def test_sorted_dict(measure: Measure, live: int) -> None:
    """Python's calls count here."""
    here = world(live)
    found = SortedDict(zip(here.starts.tolist(), here.ends.tolist(), strict=True))
    pointers = here.pointers(SETS["hot"])[0].tolist()

    def search() -> int:
        answers = (found.peekitem(found.bisect_right(p) - 1) for p in pointers)
        return sum(start for p, (start, end) in zip(pointers, answers, strict=True) if p < end)

    total = measure.benchmark.pedantic(search, rounds=100)
    assert total * (TIMES // SETS["hot"]) % 2**64 == here.pointers(SETS["hot"])[1]
    measure.told("SortedDict", f"{live} hot", SETS["hot"])


@pytest.mark.parametrize("live", [FEW, MANY])
def test_beside_a_writer(measure: Measure, lib: Any, live: int) -> None:
    """Hot look-ups while another thread takes blocks out and enters them again, without pause."""
    here = world(live)
    pointers, total = here.pointers(SETS["hot"])
    starts, ends, _, _ = here.blocks
    others = here.order[~np.isin(here.starts[here.order], blocks_of(here, pointers))][:1000].copy()
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            arguments = (starts, ends, len(others), words(others, "uint32_t"))
            lib.loop_replace(ledger(lib, live), *arguments)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        arguments = (ledger(lib, live), words(pointers), SETS["hot"], TIMES)
        measure.loop("ledger beside a writer", f"{live} hot", lib.loop_extent, arguments, total)
    finally:
        stop.set()
        writer.join()


def blocks_of(here: World, pointers: Numbers) -> Numbers:
    """The starts of the blocks these lie in."""
    return here.starts[np.searchsorted(here.starts, pointers, side="right") - 1]


@pytest.mark.parametrize("live", [FEW, MANY])
def test_remove_and_add(benchmark: Any, lib: Any, tell: Tell, live: int) -> None:
    here = world(live)
    order = np.random.default_rng(3).permutation(live)[:FEW].astype(np.uint32)
    starts, ends, _, _ = here.blocks
    arguments = (ledger(lib, live), starts, ends, FEW, words(order, "uint32_t"))
    benchmark.group = "change"
    benchmark.pedantic(lib.loop_replace, args=arguments, rounds=ROUNDS, warmup_rounds=1)
    ns = fastest_ns(benchmark, 2 * FEW)
    tell(f"ledger, a block of {live} entered or taken out: {ns:.0f} ns")
    assert ns <= CHANGE_NS


def test_no_address(benchmark: Any, lib: Any, tell: Tell) -> None:
    """Numbers, flags, single and double precision values, addresses of the host's."""
    dice = np.random.default_rng(4)
    values = dice.integers(0, 1 << 20, 1024).astype(np.uint64)
    values[1::4] = dice.random(256).astype(np.float64).view(np.uint64)
    values[2::4] = dice.random(512).astype(np.float32).view(np.uint64)
    values[3::4] += np.uint64(0x5555_0000_0000)
    benchmark.group = "no address"
    arguments = (ledger(lib, FEW), words(values), 1024, TIMES)
    assert benchmark.pedantic(lib.loop_may_hold, args=arguments, rounds=ROUNDS) == 0
    ns = fastest_ns(benchmark, TIMES)
    tell(f"ledger, a value is no address: {ns:.2f} ns")
    assert ns <= TEST_NS
