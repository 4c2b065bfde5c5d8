"""Where something stands in the way of memory that moves: the program gets on, and loses nothing.

`trouble.c` checks every word it wrote; what it prints must be what it prints without `ulms.so`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

UM = [("um", policy) for policy in ("ahead", "none")]
ALL = [*UM, ("vmm", "ahead")]
BACKENDS = ["um", "vmm"]
PATIENCE_NS = 100_000_000
"""How long an operation is held behind a gate (`PATIENCE_GATED_NS`)."""
ATTEMPTS = 5
EXCHANGE = "cuThreadExchangeStreamCaptureMode"

Trouble = Callable[..., dict[str, int]]


def said(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("counter ")]


@pytest.fixture
def trouble(
    compiled: Compile, run_emulated: RunEmulated, run_native: RunEmulated, emulator_dir: Path
) -> Trouble:
    """Runs a part of trouble.c both ways, so many times under ulms.so; the counters of the last.

    `native` is the emulated device's memory where it runs alone, `says` what ulms.so must tell;
    None: whatever it tells, if `among` is part of it.
    """
    binary = compiled("trouble", str(emulator_dir / "libcuda.so.1"))

    def run(
        part: str,
        times: int = 1,
        native: str = "8GiB",
        says: str | None = "",
        among: str = "",
        **env: str,
    ) -> dict[str, int]:
        settings = {"ULMS_GPU_MEMORY_FACTOR": "100", **env}
        outside = run_native([binary, part], {"EMU_MEMORY": native})
        assert outside.returncode == 0, outside.stdout
        for _ in range(times):
            under = run_emulated([binary, part], settings)
            assert under.returncode == 0, under.stdout
            assert says is None or under.stderr == says
            assert among in under.stderr
        assert said(under.stdout) == said(outside.stdout)
        return counters_in(under.stdout)

    return run


@pytest.mark.alone
@pytest.mark.parametrize(("backend", "policy"), ALL)
def test_a_closed_gate_is_waited_for_once(trouble: Trouble, backend: str, policy: str) -> None:
    """All operations are behind a word that the same thread writes after the last of them.

    Each that was held would be for so long; what else the machine does makes it longer.
    """
    env = {"ULMS_BACKEND": backend, "ULMS_POLICY": policy, "ULMS_GPU_MEMORY": "24MiB"}
    for _ in range(ATTEMPTS):
        counters = trouble("gate", **env)
        assert counters["short_operations"] > 3 or policy != "ahead"
        if counters["held_ns"] < 8 * PATIENCE_NS:
            return
    pytest.fail(f"held for {counters['held_ns']} ns")


def test_what_waits_behind_a_gate_passes_the_budget_and_leaves(trouble: Trouble) -> None:
    """All blocks are used there, and nobody could hold those operations: their pages come all at
    once when it opens, as many as ulms.so says, and leave again.
    """
    budget, blocks, operation = 24 << 20, 96 << 20, 4 << 20
    env = {"ULMS_BACKEND": "um", "ULMS_GPU_MEMORY": str(budget), "EMU_MEMORY": "8GiB"}
    counters = trouble("gated", **env)
    assert budget + operation < counters["pages_peak"] <= budget + counters["gated_bytes"]
    assert counters["gated_bytes"] <= blocks - budget + operation
    assert counters["pages_now"] <= budget


@pytest.mark.parametrize(("backend", "policy"), ALL)
def test_a_kernel_that_shows_no_address_is_waited_for(
    trouble: Trouble, backend: str, policy: str
) -> None:
    """What it reads is lost no earlier than it has run, though nobody knows that it reads it."""
    trouble("blind", ULMS_BACKEND=backend, ULMS_POLICY=policy, ULMS_GPU_MEMORY="24MiB")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_launch_into_several_streams_is_waited_for_in_each(
    trouble: Trouble, backend: str
) -> None:
    """The framework takes back what the later of its kernels still reads."""
    trouble("several", ULMS_BACKEND=backend, ULMS_GPU_MEMORY="24MiB")


@pytest.mark.parametrize("backend", BACKENDS)
def test_captures_survive_the_beginning_of_moves(trouble: Trouble, backend: str) -> None:
    """A wait of ours for the whole context would spoil one that begins at that moment."""
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "24MiB", "ULMS_LOG_LEVEL": "INFO"}
    trouble("captures", times=30, says=None, among="pages move from here on", **env)


@pytest.mark.parametrize("fail", ["", "sticky"])
@pytest.mark.parametrize(("backend", "policy"), ALL)
def test_captures_that_forbid_calls_of_ours_survive(
    trouble: Trouble, backend: str, policy: str, fail: str
) -> None:
    """Also where the driver refuses what makes such calls harmless: then nothing moves."""
    env = {"ULMS_BACKEND": backend, "ULMS_POLICY": policy, "ULMS_GPU_MEMORY": "24MiB"}
    if not fail:
        assert trouble("beside", **env)["evicted_bytes"] > 0
        return
    over = {
        "um": "is left to the driver's own paging",
        "vmm": "stays where it is, on the device or on the host",
    }
    says = f"[ulms] WARN: device 0: the driver refuses {EXCHANGE}: its memory {over[backend]}\n"
    env["EMU_FAIL"] = f"{EXCHANGE}:sticky"
    assert trouble("beside", says=says, **env)["evicted_bytes"] == 0


@pytest.mark.parametrize("after", range(0, 40, 8))
@pytest.mark.parametrize(("backend", "policy"), [("um", "none"), ("vmm", "ahead")])
def test_captures_survive_a_refusal_at_any_moment(
    trouble: Trouble, backend: str, policy: str, after: int
) -> None:
    env = {"ULMS_BACKEND": backend, "ULMS_POLICY": policy, "ULMS_GPU_MEMORY": "24MiB"}
    trouble("beside", says=None, **env, EMU_FAIL=f"{EXCHANGE}:after={after}:sticky")


@pytest.mark.alone
@pytest.mark.parametrize("fail", ["", f"{EXCHANGE}:sticky"])
def test_captures_survive_being_traced(trouble: Trouble, tmp_path: Path, fail: str) -> None:
    """What is read of operations beside them is how long these took.

    Where the mode is refused, a capture that begins waits until a query that was allowed is over.
    """
    trace = str(tmp_path / "trace")
    trouble("beside", ULMS_BACKEND="observe", ULMS_TRACE=trace, EMU_FAIL=fail)
    assert Path(trace).stat().st_size > 0


@pytest.mark.parametrize(("backend", "policy"), [("um", "ahead"), ("um", "pump"), ("vmm", "ahead")])
@pytest.mark.parametrize("limit", ["48MiB", "80MiB"])
def test_an_allocator_that_is_refused_frees_and_tries_again(
    trouble: Trouble, limit: str, backend: str, policy: str
) -> None:
    """A limit of managed memory is met as the end of a device's is, as often and as late."""
    env = {"ULMS_BACKEND": backend, "ULMS_POLICY": policy}
    env |= {"ULMS_MANAGED_LIMIT": limit, "ULMS_GPU_MEMORY": "16MiB"}
    assert trouble("cache", native=limit, **env)["evicted_bytes"] > 0


@pytest.mark.parametrize(
    ("backend", "call"),
    [
        ("um", "cuMemAllocManaged:after=8"),
        ("vmm", "cuMemAddressReserve:after=10"),  # the first two are for the frames
    ],
)
def test_what_could_not_be_replaced_takes_from_the_budget(
    trouble: Trouble, backend: str, call: str
) -> None:
    """The first eight blocks fit it, and leave when the others turn out to be plain."""
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "48MiB", "EMU_FAIL": f"{call}:sticky"}
    assert trouble("blind", **env)["evicted_bytes"] > 0
    env["ULMS_GPU_MEMORY"] = "1GiB"
    assert trouble("blind", **env)["evicted_bytes"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_under_way_when_moving_begins_is_waited_for(trouble: Trouble, backend: str) -> None:
    """It is none of the operations that are known: nothing leaves before the driver has it."""
    counters = trouble("late", ULMS_BACKEND=backend, ULMS_GPU_MEMORY="24MiB")
    assert counters["waited"] == 1


@pytest.mark.parametrize("after", range(0, 12, 2))
@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_of_an_unknown_context_is_not_freed_early(
    trouble: Trouble, backend: str, after: int
) -> None:
    """A free of remapped memory waits for its context: one has to be known."""
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "1GiB"}
    trouble("frees", **env, EMU_FAIL=f"cuCtxGetCurrent:after={after}:sticky")
