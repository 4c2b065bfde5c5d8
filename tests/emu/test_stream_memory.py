"""Memory that comes and goes in stream order, where other memory takes its place.

`stream_memory.c` and `freed_memory.c` print what a program can see, which must be the same without
ulms.so, and lines that begin with "is", which tell what the driver still holds.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

Told = Callable[..., list[str]]


@pytest.fixture(params=["um", "vmm"])
def backend(request: pytest.FixtureRequest) -> str:
    """What replaces the memory."""
    return str(request.param)


@pytest.fixture
def teller(
    backend: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
) -> Callable[[str], Told]:
    """What runs a part of the named program both ways; its "is" lines under ulms.so."""

    def of(program: str) -> Told:
        binary = compiled(program, str(emulator_dir / "libcuda.so.1"))

        def run(part: str, **env: str) -> list[str]:
            native = run_native([binary, part], env)
            under = run_emulated([binary, part], {"ULMS_BACKEND": backend, **env})
            lines = under.stdout.splitlines()
            assert (native.returncode, native.stderr) == (0, "")
            assert (under.returncode, under.stderr) == (0, ""), under.stdout
            seen = [line for line in native.stdout.splitlines() if not line.startswith("is ")]
            assert [line for line in lines if not line.startswith("is ")] == seen
            return [line.removeprefix("is ") for line in lines if line.startswith("is ")]

        return run

    return of


@pytest.fixture
def told(teller: Callable[[str], Told]) -> Told:
    """Of stream_memory.c."""
    return teller("stream_memory")


@pytest.fixture
def freed(teller: Callable[[str], Told]) -> Told:
    """Of freed_memory.c."""
    return teller("freed_memory")


def test_another_thread_s_allocation_in_a_captured_stream_is_a_node(told: Told) -> None:
    told("capture")


def test_a_wait_for_a_stream_waits_for_no_other(told: Told) -> None:
    """1.5 GiB were freed; what would free them in earnest may wait for the whole context."""
    beside, after = told("waits")
    assert beside.endswith("there beside the other stream")
    assert after == "0 of 6 there after the context was waited for"


def test_what_is_freed_does_not_pile_up_where_only_streams_are_waited_for(told: Told) -> None:
    assert told("streams") == ["0 of 6 there after the stream was waited for"]


@pytest.mark.parametrize("times", ["", ":sticky"])
def test_it_stays_where_the_driver_does_not_tell_that_nothing_runs(told: Told, times: str) -> None:
    """As drivers before CUDA 12.5; it is used again, and the limit bounds it."""
    told("streams", EMU_FAIL=f"cuCtxRecordEvent{times}")


def test_a_wait_for_a_context_waits_for_no_other(told: Told) -> None:
    assert told("contexts") == [
        "6 of 6 there after another context was waited for",
        "4 of 6 there after their own was",
    ]


def test_what_waits_takes_no_place_from_what_moves(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """One stream is always busy, so that nothing is freed in earnest; its pages may leave."""
    binary = compiled("freed_memory", str(emulator_dir / "libcuda.so.1"))
    env = {"ULMS_BACKEND": "um", "ULMS_LOG_LEVEL": "DEBUG", "EMU_MEMORY": "512MiB"}
    done = run_emulated([binary, "busy"], env)
    assert done.returncode == 0, done.stdout + done.stderr
    budgets = [int(mib) for mib in re.findall(r"budget (\d+) MiB", done.stderr)]
    assert min(budgets) > 0.6 * max(budgets)  # what is freed in a moment may still be there


def test_a_free_of_nothing_waits_for_nothing(freed: Told) -> None:
    freed("nothing")


@pytest.mark.parametrize("fail", ["", "cuCtxRecordEvent:sticky"])
def test_what_was_freed_during_captures_makes_room(freed: Told, fail: str) -> None:
    freed("again", EMU_MEMORY="256MiB", ULMS_MANAGED_LIMIT="256MiB", EMU_FAIL=fail)


def test_the_default_limit_makes_nobody_wait(freed: Told) -> None:
    """What is beyond it is plain."""
    assert freed("beyond") == []


@pytest.mark.parametrize("fail", ["", "cuCtxRecordEvent:sticky"])
def test_a_limit_that_was_set_waits_for_what_was_freed(freed: Told, fail: str) -> None:
    assert freed("ahead", ULMS_MANAGED_LIMIT="64MiB", EMU_FAIL=fail) == []


def test_a_limit_that_was_set_waits_for_nothing_else(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """What else runs may end only by what the program does next: it is refused before."""
    binary = compiled("freed_memory", str(emulator_dir / "libcuda.so.1"))
    env = {"ULMS_BACKEND": "um", "ULMS_MANAGED_LIMIT": "64MiB"}
    done = run_emulated([binary, "held up"], env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "is refused: 2" in done.stdout


def test_who_destroys_a_context_waits_for_no_allocation(freed: Told) -> None:
    """That waits for a gate, which is opened behind."""
    assert freed("beside", ULMS_MANAGED_LIMIT="64MiB") == []


def test_an_allocation_waits_for_no_gate_behind_what_was_freed_during_captures(
    freed: Told,
) -> None:
    """It is refused where the program would have to open one before."""
    (answer,) = freed("gated", EMU_MEMORY="256MiB", ULMS_MANAGED_LIMIT="256MiB")
    assert answer in ("answered 0", "answered 2")


def test_an_allocation_waits_for_its_own_program_only_so_long(freed: Told) -> None:
    """It is refused where the last use of what was freed does not end before."""
    assert freed("own", ULMS_MANAGED_LIMIT="64MiB") == ["answered 2"]


def test_no_event_of_a_context_that_is_being_destroyed_is_asked(freed: Told) -> None:
    """While an allocation waits for memory that a stream of it has freed."""
    assert freed("leaves", ULMS_MANAGED_LIMIT="64MiB") == ["asked few times"]


def test_memory_freed_during_captures_goes_though_its_context_went_meanwhile(freed: Told) -> None:
    """While an allocation waited for what was freed in another context."""
    env = {"EMU_MEMORY": "256MiB", "EMU_HOST_MEMORY": "256MiB", "ULMS_MANAGED_LIMIT": "1GiB"}
    assert freed("left", **env) == ["not there"]


def test_a_context_without_such_memory_is_seldom_asked_whether_it_is_idle(freed: Told) -> None:
    (asked,) = freed("asked")
    assert asked in ("asked 0 times", "asked 1 times")


def test_memory_outlives_the_context_of_the_stream_that_freed_it(freed: Told) -> None:
    assert freed("orphaned") == ["not there"]


def test_an_allocation_waits_for_nothing_that_was_freed_before(told: Told) -> None:
    told("allocates")


@pytest.mark.parametrize("part", ["destroyed", "context destroyed", "its own destroyed"])
def test_a_capture_goes_with_its_stream(told: Told, part: str) -> None:
    """While it lasts, the thread's allocations stay plain, and nothing is freed late."""
    assert told(part) == [
        "6 of 6 there after the capture",
        "0 of 6 there after the context was waited for",
    ]


def test_a_capture_that_was_not_ended_goes_on(told: Told) -> None:
    told("mistaken", ULMS_GPU_MEMORY="128MiB", ULMS_GPU_MEMORY_FACTOR="100")


def test_a_capture_does_not_go_with_a_context_that_is_not_its_stream_s(told: Told) -> None:
    told("other destroyed", ULMS_GPU_MEMORY="128MiB", ULMS_GPU_MEMORY_FACTOR="100")


def test_a_thread_ends_its_own_capture(told: Told) -> None:
    """All threads' own streams have one name."""
    assert told("own") == [
        "replaced of the thread that has ended its capture",
        "not replaced while it captures",
    ]


def test_a_stream_gives_memory_of_its_own_device(told: Told) -> None:
    """Whatever context is current; it counts against that device's limit."""
    told("devices", EMU_DEVICES="2")


@pytest.mark.parametrize("part", ["twice", "lost"])
def test_frees_that_the_driver_refuses_are_refused(told: Told, part: str) -> None:
    """Of what has been freed already, and in a context that is lost to an error."""
    told(part)


def test_a_stream_of_another_context_frees_behind_its_own_work(told: Told) -> None:
    assert told("elsewhere") == ["there before its use", "not there after it"]


@pytest.mark.parametrize("budget", ["", "80MiB"])
def test_what_was_freed_in_a_stream_is_used_again_in_it_and_kept_by_its_pool(
    told: Told, budget: str
) -> None:
    """Before its use is over; each allocation finds the address that it had a step before."""
    env = {"ULMS_GPU_MEMORY": budget, "ULMS_GPU_MEMORY_FACTOR": "100"} if budget else {}
    assert told("repeats", **env) == [
        "18 of 18 where they were",
        "there",
        "not there after the pool gave all back",
    ]
