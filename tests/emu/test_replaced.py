"""Other memory in the place of plain memory: what is replaced, and that programs do not see it.

`memory.c` prints what a program can see, which must be the same without ulms.so, and lines that
begin with "is", which tell how the driver holds the memory.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from sortedcontainers import SortedDict

from tests.conftest import Compile, RunEmulated
from tests.emu.test_accounts import (
    MIB,
    NO_ADDRESS,
    OUT_OF_MEMORY,
    Program,
    allocate,
    check,
    grains,
    parse,
    programs,
)

pytestmark = pytest.mark.emu

PAGE = SMALL = 2 * MIB
LIMIT = 64 * MIB
NOTHING_SMALL = {"EMU_MEMORY": f"{63 * MIB}"}
"""A 64th of which is less than what is replaced: then nothing stays plain for being small."""
MUCH = 64 * 1024 * MIB
"""A 64th of which is more than all that is small."""
HELD = {"um": "managed", "vmm": "mapped"}
"""How the driver holds what a backend replaced."""
PROVIDES = {"um": "cuMemAllocManaged", "vmm": "cuMemAddressReserve"}
"""The call without which nothing is replaced."""
CANNOT = {
    "um": "has no concurrent access to managed memory",
    "vmm": "cannot map host memory by handles",
}
"""What is said of a device on which nothing is replaced."""
LACKS = [
    pytest.param("um", 89, id="CONCURRENT_MANAGED_ACCESS"),
    pytest.param("vmm", 102, id="VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"),
    pytest.param("vmm", 141, id="HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"),
]
"""Attributes (`CU_DEVICE_ATTRIBUTE_...`) each of which a backend needs."""

Told = Callable[..., list[str]]


@pytest.fixture(params=HELD)
def backend(request: pytest.FixtureRequest) -> str:
    """Each of the backends that replace memory."""
    return str(request.param)


@pytest.fixture
def told(
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
    backend: str,
) -> Told:
    """Runs a part of memory.c both ways; returns its "is" lines under ulms.so and what was logged.

    "provided" stands for how the backend holds what it replaced. Other lines are compared with
    those of a run without ulms.so, except with `alone`.
    """
    binary = compiled("memory", str(emulator_dir / "libcuda.so.1"), parts=["told"])

    def run(*words: str, env: Mapping[str, str] | None = None, alone: bool = False) -> list[str]:
        under = run_emulated([binary, *words], {"ULMS_BACKEND": backend, **(env or {})})
        assert under.returncode == 0, under.stdout + under.stderr
        seen = [line for line in under.stdout.splitlines() if not line.startswith("is ")]
        if not alone:
            outside = {name: value for name, value in (env or {}).items() if name != "EMU_FAIL"}
            native = run_native([binary, *words], outside)
            assert (native.returncode, native.stderr) == (0, "")
            lines = native.stdout.splitlines()
            assert seen == [line for line in lines if not line.startswith("is ")]
        states = [line[3:] for line in under.stdout.splitlines() if line.startswith("is ")]
        return [state.replace(HELD[backend], "provided") for state in states] + (
            under.stderr.splitlines()
        )

    return run


def test_what_is_replaced(told: Told, backend: str) -> None:
    states = dict(line.split(": ")[::-1] for line in told("kinds", env=NOTHING_SMALL))
    asked = states.pop("the program's own")
    plain = {what for what, how in states.items() if how == "plain"}
    small = {f"{kind} of {size}" for kind in ("plain", "async") for size in (1, MIB - 1)}
    assert plain == {*small, "from a pool with a limit"}
    assert set(states.values()) == {"plain", "provided"}
    assert asked == ("provided" if backend == "um" else "managed")


@pytest.mark.parametrize(
    "memory", [{"ULMS_GPU_MEMORY": "640MiB"}, {"EMU_MEMORY": f"{640 * MIB}"}], ids=["set", "seen"]
)
def test_what_is_small_stays_plain_up_to_a_share(told: Told, memory: dict[str, str]) -> None:
    plain, provided = ["plain"], ["provided"]
    assert told("small", env=memory) == [*plain * 5, *provided, *provided, *plain]


def test_what_is_small_is_replaced_where_the_driver_has_nothing_left(
    told: Told, backend: str
) -> None:
    """Pages that are there can leave, and more than there is was asked for."""
    memory = {"EMU_MEMORY": f"{640 * MIB}", "ULMS_GPU_MEMORY_FACTOR": "100"}
    limit = {"ULMS_MANAGED_LIMIT": "2GiB", "ULMS_GPU_MEMORY": "16GiB"}
    assert told("small last", env=memory | limit, alone=True)[0] == "provided"


def test_the_program_is_told_of_plain_memory(told: Told) -> None:
    assert told("attributes", env=NOTHING_SMALL) == ["provided provided provided"]


def test_frees_in_stream_order_wait_for_the_last_use_and_the_program_does_not(told: Told) -> None:
    assert told("async") == [
        "provided",
        "provided after the free",
        "provided, the same",
        "plain after the context was waited for",  # it is no memory at all
    ]


def test_in_a_capture_memory_is_plain(told: Told) -> None:
    assert told("capture") == ["plain inside, provided after"]


@pytest.mark.parametrize(
    ("file", "listed", "how"),
    [
        ("libnccl.so.2", "", "plain"),
        ("libucp.so.0", "", "plain"),
        ("libother.so", "", "provided"),
        ("libother.so", "libsome,libother.so", "plain"),
        ("libother.so", ",", "provided"),
    ],
)
def test_some_libraries_get_plain_memory(
    file: str, listed: str, how: str, told: Told, compiled: Compile, tmp_path: Path
) -> None:
    library = tmp_path / file
    library.write_bytes(compiled("allocating_library", shared=True).read_bytes())
    library.chmod(0o755)
    env = {"ULMS_PLAIN": listed}
    assert told("library", str(library), env=env) == [
        f"{how} in the library, provided in the program"
    ]


def test_a_library_may_allocate_as_it_is_loaded(
    backend: str, compiled: Compile, run_emulated: RunEmulated, tmp_path: Path, emulator_dir: Path
) -> None:
    """While another thread's call stack is looked at for the first time."""
    plain, driver = tmp_path / "libnccl.so.2", str(emulator_dir / "libcuda.so.1")
    plain.write_bytes(compiled("allocating_library", shared=True).read_bytes())
    plain.chmod(0o755)
    loading = compiled("loading_library", shared=True)
    command = [compiled("loads", driver, "-rdynamic", "-ldl"), plain, loading]
    done = run_emulated(command, {"ULMS_BACKEND": backend})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_handle_for_other_processes_is_refused_of_managed_memory(
    told: Told, backend: str
) -> None:
    first, second, *said = told("ipc")
    if backend == "vmm":
        assert (first, second, said) == ("0", "0", [])
        return
    assert (first, second) == ("1", "1")
    assert len(said) == 1
    assert said[0].startswith("[ulms] ERROR: ")
    assert "ULMS_BACKEND=vmm" in said[0]


def test_no_handle_is_given_of_what_lies_where_memory_that_moves_does_now(told: Told) -> None:
    first, second, warning = told("dma")
    assert (first, second) == ("801", "801")
    assert "ULMS_PLAIN" in warning


def test_what_moves_is_bound_to_no_multicast_object(told: Told) -> None:
    moves, plain, _ = told("multicast", alone=True)
    assert (moves, plain) == ("1", "801")


def test_graphs_within_graphs_are_charged(told: Told) -> None:
    assert told("graphs", env={"ULMS_GPU_MEMORY": "64MiB"}) == [
        "0 MiB, launched 8, kept 8, freed 0"
    ]


def test_more_memory_than_the_device_has(told: Told) -> None:
    env = {"EMU_MEMORY": "96MiB"}
    assert told("fill", "30", env=env) == ["30 blocks"]
    env["ULMS_GPU_MEMORY"] = "32MiB"  # what moves is a share of it; it refuses nothing
    assert told("fill", "30", env=env) == ["30 blocks"]


def test_what_the_driver_does_not_provide_is_plain_and_meets_no_limit_of_ours(
    told: Told, backend: str
) -> None:
    env = {"ULMS_GPU_MEMORY": "32MiB", "EMU_FAIL": f"{PROVIDES[backend]}:sticky"}
    assert told("fill", "9", env=env) == ["9 blocks"]
    env["EMU_MEMORY"] = "40MiB"  # the driver's does refuse
    assert told("fill", "9", env=env)[-1] == "5 blocks"


def test_a_limit_that_was_set_refuses(told: Told) -> None:
    assert told("limit", env={"ULMS_MANAGED_LIMIT": "16MiB"}, alone=True) == [
        f"provided, then {OUT_OF_MEMORY}, {OUT_OF_MEMORY}, {OUT_OF_MEMORY}",
        "provided, and small memory plain",
        "provided at last",
    ]
    refused = told("fill", "9", env={"ULMS_MANAGED_LIMIT": "32MiB"}, alone=True)
    assert refused == [f"refused after 4 with {OUT_OF_MEMORY}", "4 blocks"]


def test_a_context_takes_its_memory_with_it(told: Told) -> None:
    env = {"ULMS_MANAGED_LIMIT": "16MiB"}  # the last context has all of it again
    assert told("contexts", env=env) == ["provided provided"] * 4 + ["2 blocks"]


def test_every_device_is_served(told: Told) -> None:
    assert told("devices", env={"EMU_DEVICES": "2"}) == ["provided", "provided"]


def test_a_device_that_cannot_is_left_alone(told: Told, backend: str) -> None:
    env = {"EMU_FAIL": "cuDeviceGetAttribute:sticky"}
    state, warning = told("capture", env=env)
    assert state == "plain inside, plain after"
    assert warning.startswith(f"[ulms] WARN: device 0 {CANNOT[backend]}")
    capacity = {**env, "ULMS_GPU_MEMORY": "32MiB"}
    assert told("fill", "9", env=capacity, alone=True)[0] == f"refused after 4 with {OUT_OF_MEMORY}"


@pytest.mark.parametrize(("backend", "attribute"), LACKS)
def test_a_device_that_lacks_one_thing_is_left_alone(
    attribute: int, told: Told, backend: str
) -> None:
    """Which is said once, however much the program asks for."""
    *states, warning = told("fill", "9", env={"EMU_LACKS": str(attribute)})
    assert states == ["9 blocks"]
    assert warning == (
        f"[ulms] WARN: device 0 {CANNOT[backend]}: nothing is replaced there, as with "
        "ULMS_BACKEND=observe"
    )
    assert told("async", env={"EMU_LACKS": str(attribute)})[0] == "plain"


@pytest.mark.parametrize("backend", ["vmm"])
def test_ordered_policies_are_refused_in_one_line(told: Told) -> None:
    assert told("attributes", env={"ULMS_POLICY": "pump"})[1:] == [
        "[ulms] WARN: ULMS_POLICY=pump needs memory that the driver pages: with ULMS_BACKEND=vmm "
        "it is ahead"
    ]


OURS = [
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventDestroy",
    "cuCtxGetCurrent",
    "cuThreadExchangeStreamCaptureMode",
    "cuDeviceGetMemPool",
]
ITS_OWN = {
    "um": ["cuMemAllocManaged"],
    "vmm": [
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemUnmap",
        "cuMemAddressReserve",
        "cuMemAddressFree",
    ],
}


WITHOUT: dict[str, set[str]] = {
    "attributes": {"cuEventQuery"},
    "async": set(),
    "contexts": {"cuEventDestroy", "cuEventQuery"},
}
"""Parts, and the calls that none needs there."""


@pytest.mark.parametrize(
    ("backend", "call", "part"),
    [
        (name, call, part)
        for name in HELD
        for call in [*OURS, *ITS_OWN[name]]
        for part, without in WITHOUT.items()
        if call not in without
    ],
)
def test_failures_of_our_own_calls_do_not_show(call: str, part: str, told: Told) -> None:
    fails = [f"{call}:after={after}:sticky" for after in range(3)]
    met = ["failed: 0" not in told(part, "failures", env={"EMU_FAIL": fail}) for fail in fails]
    assert met[0]


def whole_pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def managed(kind: str, size: int, backend: str) -> bool:
    """Memory that the limit of managed memory counts. Under `um` handles are the driver's."""
    kinds = {"pitch", "async", "pool", "ownpool"}
    kinds |= {"vmm", "retained"} if backend == "vmm" else set()
    large = kind == "plain" and size > SMALL
    return kind == "managed" or large or (kind in kinds and size >= MIB)


def check_limited(program: Program, output: str, backend: str) -> None:
    """Refused is only what the limit could have refused in some order of the threads."""
    results, states = parse(output)
    live: dict[tuple[str, str], tuple[str, int, int]] = {}
    index = 0
    for phase, state in zip(program.phases, states, strict=True):
        before = sum(
            whole_pages(size) for kind, _, size in live.values() if managed(kind, size, backend)
        )
        took = 0
        refused: list[int] = []
        for line in phase:
            thread, verb, *rest = line.split()
            status, address, size = results[index]
            index += 1
            if verb == "a" and status == 0:
                live[thread, rest[1]] = (rest[0], address, size)
                took += whole_pages(size) if managed(rest[0], size, backend) else 0
            elif verb == "a":
                assert status == OUT_OF_MEMORY
                assert managed(rest[0], size, backend)
                refused.append(whole_pages(size))
            else:
                assert status == (0 if live.pop((thread, rest[0]), None) else -1)
        index += 1
        held = [
            whole_pages(size) for kind, _, size in live.values() if managed(kind, size, backend)
        ]
        assert sum(held) <= LIMIT
        sizes = [size for _, _, size in live.values()]
        assert sum(sizes) <= state.used <= sum(grains(size, 3) for size in sizes)
        ranges = {a: n for kind, a, n in live.values() if kind not in NO_ADDRESS}
        assert state.live == SortedDict(ranges)
        assert all(before + took + size > LIMIT for size in refused)


@pytest.mark.parametrize(
    ("backend", "limit"), [(name, limit) for name in HELD for limit in (LIMIT, None)]
)
def test_accounts(
    limit: int | None,
    backend: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
) -> None:
    binary = allocate(compiled, emulator_dir)

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(program: Program) -> None:
        env = {"ULMS_BACKEND": backend, "EMU_MEMORY": f"{MUCH}"}
        env |= {"ULMS_MANAGED_LIMIT": f"{limit}"} if limit else {}
        done = run_emulated([binary], env, stdin=program.text())
        assert (done.returncode, done.stderr) == (0, "")
        if limit:
            check_limited(program, done.stdout, backend)
        else:
            check(program, done.stdout, None, 1, replaced=True)

    run()
