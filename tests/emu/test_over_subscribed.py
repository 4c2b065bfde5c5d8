"""Pages move and operations are held, and the program sees nothing of it.

`steps.c` computes on more memory than the budget holds, in several shapes; what it prints must
be what it prints without `ulms.so`, whatever the backend and the policy.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MIB = 1 << 20
LAYERS, BUFFER_MIB, STEPS = 6, 4, 4
SETUPS = {
    policy: {"ULMS_BACKEND": "um", "ULMS_POLICY": policy} for policy in ("ahead", "pump", "none")
} | {"vmm": {"ULMS_BACKEND": "vmm"}}
"""Backend `um` under a policy, or `vmm`, which has the one."""
BEST = ["ahead", "vmm"]
PLAIN = ["train", "threads", "graph"]
"""Shapes for the policies that are only compared with: they move memory by the same calls."""
SHAPES = [
    "train",
    "infer",
    "defaults",
    "threads",
    "streams",
    "graph",
    "pool",
    "churn",
    "contexts",
    "host",
    "hidden",
]
STILL = {("vmm", "hidden")}
"""What addresses on the device lead to stays and takes all of the budget: the rest leaves once."""
UNTOUCHED = {("vmm", "host")}
"""Memory that the program asked to be managed is the driver's."""
CALLS = ["cuMemPrefetchAsync", "cuMemDiscardBatchAsync"]
WATCHDOG_S = 180
"""Far more than any of them takes, and than operations may be held without progress."""


@dataclass(frozen=True)
class Result:
    """What was computed, in any order, as threads print when they end; and what was counted."""

    computed: list[str]
    counters: dict[str, int]
    calls: dict[str, int]
    stderr: str


class Programs:
    """Runs steps.c, and remembers what it prints natively."""

    def __init__(self, binary: Path, run: RunEmulated) -> None:
        self.binary = binary
        self.run_emulated = run
        self.native: dict[str, list[str]] = {}

    def run(self, shape: str, env: dict[str, str], *, preloaded: bool = True) -> Result:
        """One run. Fails unless it ends well."""
        command = [self.binary, shape, str(LAYERS), str(BUFFER_MIB), str(STEPS), *CALLS]
        done = self.run_emulated(command, env, preloaded=preloaded, timeout=WATCHDOG_S)
        assert done.returncode == 0, done.stderr
        words = [line.split() for line in done.stdout.splitlines()]
        told = {w: {n: int(v) for k, n, v in words_of(words, w)} for w in ("counter", "driver")}
        computed = sorted(" ".join(w) for w in words if w[0] not in told)
        return Result(computed, told["counter"], told["driver"], done.stderr)

    def same(self, setup: str, shape: str, memory_mib: int, **env: str) -> Result:
        """A run under a set-up with so much memory: it must compute what the native one does."""
        if shape not in self.native:
            self.native[shape] = self.run(shape, {}, preloaded=False).computed
        settings = {
            **SETUPS[setup],
            "ULMS_GPU_MEMORY": f"{memory_mib}MiB",
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": "4GiB",
            **env,
        }
        result = self.run(shape, {k: v for k, v in settings.items() if v})
        assert result.computed == self.native[shape]
        assert len(result.computed) > 0
        return result


def words_of(lines: list[list[str]], word: str) -> list[list[str]]:
    """The lines that begin with the word."""
    return [line for line in lines if line[0] == word]


@pytest.fixture(scope="module")
def programs(compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> Programs:
    return Programs(compiled("steps", str(emulator_dir / "libcuda.so.1")), run_emulated)


@pytest.mark.parametrize(
    ("setup", "shape"),
    [(setup, s) for setup in SETUPS for s in (PLAIN if setup == "pump" else SHAPES)],
)
def test_over_subscribed(programs: Programs, setup: str, shape: str) -> None:
    result = programs.same(setup, shape, 14)
    counters = result.counters
    assert result.stderr == ""
    assert counters["move_failures"] == 0
    if (setup, shape) in UNTOUCHED:
        assert counters["paged_bytes"] == 0
        return
    assert counters["paged_bytes"] > 0
    assert counters["evicted_bytes"] + counters["dropped_bytes"] + counters["dead_bytes"] > 0
    assert (counters["filled_bytes"] > 0) == (setup != "none" and (setup, shape) not in STILL)
    assert (counters["held_ns"] > 0) <= (setup in BEST)
    assert min(counters["admit_ns"], counters["settle_ns"]) > 0
    maps = setup == "vmm"
    assert (counters["mapped_bytes"] > 0) == (counters["map_ns"] > 0) == maps
    assert (counters["sent_ns"] > 0) == (maps and counters["evicted_bytes"] > 0)
    assert counters["sent_ns"] <= counters["out_ns"]


@pytest.mark.parametrize("setup", ["ahead", "pump", "vmm"])
@pytest.mark.parametrize("memory_mib", [8, 24])
def test_other_budgets(programs: Programs, setup: str, memory_mib: int) -> None:
    for shape in ("train", "threads"):
        programs.same(setup, shape, memory_mib)


@pytest.mark.parametrize("setup", SETUPS)
def test_nothing_moves_while_everything_fits(programs: Programs, setup: str) -> None:
    for shape in PLAIN:
        counters = programs.same(setup, shape, 1024).counters
        assert counters["placed_bytes"] >= LAYERS * BUFFER_MIB * MIB
        still = ("moves", "paged_bytes", "late", "filled_bytes", "evicted_bytes")
        for name in (*still, "held_ns", "admit_ns", "settle_ns"):
            assert counters[name] == 0, name


@pytest.mark.parametrize("setup", BEST)
def test_arguments_are_not_looked_at_while_everything_fits(
    programs: Programs, setup: str, tmp_path: Path
) -> None:
    """Nor could they teach anything, once the framework has told of a block."""

    def read(memory_mib: int, **env: str) -> tuple[int, int]:
        counted = programs.same(setup, "train", memory_mib, **env).counters
        return counted["launches"] - counted["launches_unread"], counted["launches"]

    fewer, launches = read(1024)
    assert fewer <= 2 * LAYERS < launches  # before the first block
    for env in ({"ULMS_HOOKS": "driver"}, {"ULMS_TRACE": str(tmp_path / "trace")}):
        assert read(1024, **env) == (launches, launches)
    assert read(14) == (launches, launches)
    assert read(1024, ULMS_BACKEND="observe") == (launches, launches)


@pytest.mark.parametrize("setup", BEST)
def test_sequence_is_learnt(programs: Programs, setup: str) -> None:
    counters = programs.same(setup, "train", 40).counters
    assert counters["predicted"] > 3 * counters["surprises"]


def test_content_is_lost_only_where_the_framework_said_so(programs: Programs) -> None:
    """Blocks taken back are discarded; without a framework's word nothing ever is."""
    call = "cuMemDiscardBatchAsync"
    assert programs.same("ahead", "train", 14).calls[call] > 0
    assert programs.same("ahead", "train", 14, BY_NAME="1").calls[call] > 0
    assert programs.same("ahead", "train", 14, ULMS_HOOKS="driver").calls[call] == 0
    assert programs.same("ahead", "hidden", 14).calls[call] == 0


def test_blocks_of_a_capture_are_never_dead(programs: Programs) -> None:
    """The framework takes them back, but the graph goes on using them."""
    assert programs.same("ahead", "pool", 14).calls["cuMemDiscardBatchAsync"] == 0


def test_what_a_graph_left_in_them_is_there_for_who_is_shown_it(programs: Programs) -> None:
    """As gradients of compiled PyTorch are, which its allocator takes for free."""
    programs.same("vmm", "pool", 14, ULMS_HIDDEN="known")


@pytest.mark.parametrize("setup", BEST)
def test_a_block_that_goes_late_takes_no_other_along(
    setup: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
) -> None:
    command = [compiled("late_block", str(emulator_dir / "libcuda.so.1"))]
    env = {**SETUPS[setup], "ULMS_GPU_MEMORY": "24MiB", "BY_NAME": "1"}
    assert run_emulated(command, env).stdout == run_native(command, {}).stdout != ""


@pytest.mark.parametrize("setup", BEST)
def test_capacity_is_what_is_free(programs: Programs, setup: str) -> None:
    """Without ULMS_GPU_MEMORY the device's own size is the capacity."""
    result = programs.same(setup, "train", 0, ULMS_GPU_MEMORY="", EMU_MEMORY="24MiB")
    assert result.counters["moves"] > 0
    roomy = programs.same(setup, "train", 0, ULMS_GPU_MEMORY="", EMU_MEMORY="1GiB")
    assert roomy.counters["moves"] == 0


@pytest.mark.parametrize("setup", BEST)
def test_factor_is_a_share_of_the_capacity(programs: Programs, setup: str) -> None:
    whole = programs.same(setup, "infer", 64).counters["moves"]
    third = programs.same(setup, "infer", 64, ULMS_GPU_MEMORY_FACTOR="33").counters["moves"]
    assert whole == 0
    assert third > 0


@pytest.mark.parametrize("setup", BEST)
def test_factor_zero_still_runs(programs: Programs, setup: str) -> None:
    programs.same(setup, "infer", 64, ULMS_GPU_MEMORY_FACTOR="0")


@pytest.mark.parametrize("setup", SETUPS)
def test_older_drivers(programs: Programs, setup: str) -> None:
    """CUDA 12.0 has another prefetch, and cannot discard."""
    result = programs.same(setup, "train", 14, EMU_DRIVER_VERSION="12000")
    assert result.counters["moves"] > 0
    assert result.counters["move_failures"] == 0
    assert setup == "vmm" or result.calls["cuMemPrefetchAsync"] >= result.counters["moves"]


@pytest.mark.parametrize(
    ("setup", "fail"),
    [("ahead", "cuMemPrefetchAsync:after=20:sticky"), ("vmm", "cuMemSetAccess:after=20")],
)
def test_failures_are_counted(programs: Programs, setup: str, fail: str) -> None:
    assert programs.same(setup, "train", 24, EMU_FAIL=fail).counters["move_failures"] > 0


@pytest.mark.parametrize("setup", BEST)
def test_summary_at_exit(programs: Programs, setup: str) -> None:
    told = programs.same(setup, "train", 24, ULMS_LOG_LEVEL="INFO").stderr
    assert "of pages touched" in told
    assert "ahead of need" in told
    assert any(f"GiB: {name}\n" in told for name in ("add", "scale", "axpy"))
