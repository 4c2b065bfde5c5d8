"""How many operations a second the engine decides, beside the same in plain Python.

100 000 pages of 2 MiB; an operation reads two ranges and updates a third, as a kernel does: four
pages, issued, admitted and retired; all operations together touch every page once a period.
`resident`: everything fits. `half`: half of it does, and moves are done the moment they are given
out: four an operation, which bring and take away as many pages as it touches.
"""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import built, engine_cost  # noqa: E402
from pump.sim.engine import (  # noqa: E402
    LANE_IN,
    LANE_OUT,
    READ,
    RUN,
    UPDATE,
    CompiledEngine,
    Engine,
    Settings,
    Touch,
)
from pump.sim.link import LINKS, Link  # noqa: E402
from pump.sim.recorded import open_sequence  # noqa: E402
from pump.sim.sequence import Sequence  # noqa: E402
from pump.sim.simulator import MORE, STEADY, Simulator, settings_for  # noqa: E402
from tests.reference.policies import reference  # noqa: E402

pytestmark = pytest.mark.unit

PAGE = 2 << 20
PAGES = 100_000
EACH = 4  # pages an operation touches, in three ranges
OPERATIONS = PAGES // EACH
TIMES = 4 * OPERATIONS
WINDOW = 256
ROUNDS = 5
SLOW_TIMES = 3_000  # operations of the plain engine
LEAST_A_SECOND = 1_000_000
REPLAY_S = 5.0
PART = 400  # events of a step, for the plain engine
LARGEST = ROOT / "bench" / "traces" / "gpt2xl.ulms.gz"

DECLARATIONS = """
struct ulms_engine_settings { const char *policy;
                              uint64_t page_bytes, budget, run_bytes, ahead_bytes;
                              uint32_t keeps, faults, in_place;
                              uint64_t shed_bytes; };
struct ulms_engine_touch { uint64_t start, bytes, mode; };
struct ulms_engine *ulms_engine_new(const struct ulms_engine_settings *);
void ulms_engine_free(struct ulms_engine *);
int ulms_engine_allocated(struct ulms_engine *, uint64_t, uint64_t);
uint64_t loop_engine(struct ulms_engine *, const struct ulms_engine_touch *, uint64_t, uint64_t,
                     uint64_t, uint64_t);
"""

ffi = FFI()
ffi.cdef(DECLARATIONS)
Tell = Callable[[str], None]


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The engine and the loop around it, optimised as the library is."""
    target = tmp_path_factory.mktemp("engine") / "libengine.so"
    return ffi.dlopen(str(built.compiled(target, "engine")))


def touches_of(operation: int) -> tuple[Touch, ...]:
    """Two pages read, one read, one updated."""
    first = operation * EACH * PAGE
    return (
        Touch(first, 2 * PAGE, READ),
        Touch(first + 2 * PAGE, PAGE, READ),
        Touch(first + 3 * PAGE, PAGE, UPDATE),
    )


def settings(policy: str, frames: int) -> Settings:
    return Settings(policy, PAGE, frames * PAGE, 32 << 20, 64 << 20, keeps=True, faults=True)


def engine_of(lib: Any, policy: str, frames: int) -> Any:
    """An engine that holds all pages, absent."""
    name = ffi.new("char[]", policy.encode())
    given = ffi.new(
        "struct ulms_engine_settings *",
        (name, PAGE, frames * PAGE, 32 << 20, 64 << 20, 1, 1, 0),
    )
    made = ffi.gc(lib.ulms_engine_new(given), lib.ulms_engine_free)
    assert lib.ulms_engine_allocated(made, 0, PAGES * PAGE)
    return made


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("policy", ["ahead", "pump"])
@pytest.mark.parametrize(("name", "frames"), [("resident", PAGES), ("half", PAGES // 2)])
def test_compiled(
    benchmark: Any, lib: Any, tell: Tell, policy: str, name: str, frames: int
) -> None:
    engine = engine_of(lib, policy, frames)
    rows = [touch for i in range(OPERATIONS) for touch in touches_of(i)]
    touches = ffi.new("struct ulms_engine_touch[]", rows)
    arguments = (engine, touches, 3, OPERATIONS, TIMES, WINDOW)
    benchmark.group = f"engine, {name}"
    whole = benchmark.pedantic(lib.loop_engine, args=arguments, rounds=ROUNDS, warmup_rounds=1)
    assert whole == TIMES
    rate = TIMES / benchmark.stats.stats.min
    tell(f"engine, {policy}, {name}: {rate / 1e6:.2f} million operations a second")
    if name == "resident":
        assert rate >= LEAST_A_SECOND


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind")
def test_instructions_of_an_operation(tmp_path: Path, tell: Tell) -> None:
    """In `half`, learning included."""
    each = engine_cost.instructions(tmp_path)
    tell(f"engine, ahead, half: {each} instructions an operation and its moves")
    assert 1_000 < each < engine_cost.MOST


def test_plain_python(benchmark: Any, tell: Tell) -> None:
    """The reference engine, from Python, on as many pages."""
    engine = reference(settings("ahead", PAGES))
    engine.allocated(0, PAGES * PAGE)
    benchmark.group = "engine, resident"
    benchmark.pedantic(drive, args=(engine, SLOW_TIMES), rounds=1)
    rate = SLOW_TIMES / benchmark.stats.stats.min
    tell(f"engine, in plain Python: {rate / 1e6:.4f} million operations a second")


def drive(engine: Engine, times: int) -> None:
    """What loop_engine does."""
    issued: list[int] = []
    for i in range(times):
        if i >= WINDOW:
            engine.retired(issued[i - WINDOW], 1000)
        serial = engine.issued(i % OPERATIONS, touches_of(i % OPERATIONS))
        if engine.admit(serial)[0] != RUN:
            for lane in (LANE_IN, LANE_OUT):
                while move := engine.next(lane):
                    engine.moved(move.id)
            assert engine.admit(serial)[0] == RUN
        issued.append(serial)


@pytest.mark.parametrize("name", ["um", "vmm", "vmm-known"])
def test_replay_of_the_largest_trace(tell: Tell, name: str) -> None:
    """Ten steps at half the memory, machine and all, faster than a bound; beside the plain engine,
    which plays a part of a step.
    """
    sequence, link = open_sequence(LARGEST), LINKS[name]
    budget = sequence.footprint(link.page_bytes) // 2
    engine_settings = settings_for(link, "ahead", budget)
    seconds = 10 * step_s(CompiledEngine(engine_settings), link, sequence)
    part = Sequence(sequence.live, (sequence.steps[-1][:PART],))
    few = settings_for(link, "ahead", part.footprint(link.page_bytes) // 2)
    engines = (CompiledEngine(few), reference(few))
    compiled, plain = (1e6 * step_s(engine, link, part) / PART for engine in engines)
    tell(
        f"replay of {LARGEST.name}, {name}: 10 steps in {seconds:.2f} s;"
        f" {PART} events of it, {compiled:.0f} us each, with the plain engine {plain:.0f}"
    )
    assert seconds < REPLAY_S


def step_s(engine: Engine, link: Link, sequence: Sequence) -> float:
    """Seconds that playing a step takes."""
    machine = Simulator(engine, link, "ahead")
    begin = time.process_time()
    machine.run(sequence)
    return (time.process_time() - begin) / (machine.warm + STEADY + MORE)
