"""Random programs, over-subscribed, under every policy; and in which calls of ours fail.

Each must say what it says without ulms.so, and end. `make soak` does the same for long.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.random_programs import (
    ENDS,
    EVENTS,
    HELD_TO,
    LATE_S,
    OVER,
    ROOT,
    SETUPS,
    Case,
    Judge,
    Verdict,
    driver_functions,
    looked_at,
)

pytestmark = pytest.mark.emu

HAPPENS = ("observe", "ahead", "vmm")
"""Set-ups under which something happens to the process."""
HAPPEN = 12
"""Programs to which something happens."""
FAIL = ("observe", "none", "ahead", "vmm")
"""Set-ups whose calls fail: the other policies make the same ones at the same places."""
FAILURES = (":after={}", ":sticky", "", ":after={}:sticky:error=2")
"""Of calls, taken in turn by each set-up: once or from then on, at once or later."""
LOST = {"cuMemMap", "cuMemSetAccess"}
"""The first two failures are for them. Not refused for good later on: what the driver maps no more
is lost, and the program hears of no memory (`test_vmm_failures.py`)."""
LATER = 7
"""So many calls later, or half of those that there are."""
A_SETUP_FAILS = 12
"""Runs of a set-up in which a call did fail."""
DISTINCT = A_SETUP_FAILS // 3
"""So many programs at least."""
TURNS, MORE = 25, 12
"""Behind the first come so many programs at most, of calls whose failure none has met yet."""


def words(text: str) -> set[str]:
    return set(text.split())


ALWAYS = words("""cuArray3DGetDescriptor cuCtxGetCurrent cuCtxGetDevice cuCtxSetCurrent
    cuDeviceGetCount cuDeviceGetName cuDevicePrimaryCtxGetState cuDeviceTotalMem cuDriverGetVersion
    cuEventCreate cuEventQuery cuEventRecord cuFuncGetName cuFuncGetParamInfo
    cuGraphBatchMemOpNodeGetParams cuGraphChildGraphNodeGetGraph cuGraphGetNodes
    cuGraphKernelNodeGetParams cuGraphMemAllocNodeGetParams cuGraphMemcpyNodeGetParams
    cuGraphMemsetNodeGetParams cuGraphNodeGetType cuKernelGetName cuKernelGetParamInfo
    cuStreamCreate cuStreamGetCaptureInfo cuStreamGetCtx cuStreamIsCapturing
    cuThreadExchangeStreamCaptureMode""")
MOVING = ALWAYS | words("""cuCtxPopCurrent cuCtxPushCurrent cuCtxSynchronize cuDeviceGetAttribute
    cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceGetUuid cuEventDestroy cuGraphClone
    cuGraphGetEdges cuGraphInstantiateWithFlags cuGraphNodeFindInClone cuMemGetInfo
    cuStreamSynchronize cuStreamWaitEvent""")
UM = MOVING | {"cuMemAllocManaged", "cuMemFree", "cuMemPrefetchAsync"}
LOSING = {"cuMemAdvise", "cuMemDiscardBatchAsync"}
OURS = {
    "observe": ALWAYS | {"cuEventElapsedTime", "cuEventSynchronize"},
    "none": UM,
    "pump": UM,
    "ahead": UM | LOSING | {"cuCtxCreate", "cuCtxSetLimit", "cuDeviceGet"},
    "vmm": MOVING
    | words("""cuMemAddressFree cuMemAddressReserve cuMemCreate cuMemMap cuMemRelease cuMemSetAccess
        cuMemUnmap cuMemcpyAsync cuMemcpyDtoHAsync cuStreamDestroy cuStreamQuery"""),
}
"""What ulms.so calls by itself under each set-up."""
RARE = words("""cuCtxRecordEvent cuDeviceGetGraphMemAttribute cuDeviceGraphMemTrim
    cuGraphMemFreeNodeGetParams cuGraphNodeSetEnabled cuMemExportToShareableHandle cuMemPoolTrimTo
    cuMemcpyHtoDAsync cuStreamGetFlags""")
"""Where more is freed in stream order, or during captures, than these programs have; where a limit
is reached by pools or graphs; for another process; where pages go to a file; where a memset leaves
its allocation; where a graph's node is disabled.

They seldom make them. `test_stream_memory.py`, `test_accounts.py`, `test_ipc.py`,
`test_overruns.py`, `test_page_file.py` and `test_contents.py` meet them.
"""
BY_CHANCE = {"none": {"cuMemFree"}, "vmm": {"cuGraphExecDestroy"}}
"""Whether a free is put off there, or a graph is cut, depends on time: `ahead` and
`test_contents.py` meet it."""
WORKERS = 2


@pytest.fixture(scope="module")
def judge(random_program: Path) -> Judge:
    return Judge(random_program)


def verdicts(judge: Judge, cases: Sequence[Case]) -> list[Verdict]:
    """Runs all cases; fails with what differs in the first ones that do."""
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(judge.verdict, cases))
    wrong = [verdict.text for verdict in found if verdict.text]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ\n" + "\n\n".join(wrong[:3])
    return found


def test_the_program_is_the_same_on_every_run(judge: Judge) -> None:
    """Also when everything takes another time, and when calls fail that are not its own."""
    everything = ",".join(f"{name}:sticky" for name in driver_functions())
    for seed, other in itertools.product(
        range(1, 5), ({"EMU_TIME": "1"}, {"EMU_FAIL": everything})
    ):
        found = judge.run(Case(seed), judge.environment(None, other))
        assert (found.status, found.stdout) == (0, judge.truth(Case(seed)).stdout)


def test_programs_differ(judge: Judge) -> None:
    texts = [judge.truth(Case(seed)).stdout for seed in range(1, 9)]
    hashes = [line for text in texts for line in text.splitlines() if line.startswith("block ")]
    assert len({line.split()[-1] for line in hashes}) == len(hashes)


@pytest.mark.parametrize(("seed", "gates"), [(1, False), (2, True)])
@pytest.mark.parametrize("setup", HELD_TO)
def test_what_is_over_its_budget_is_seen(judge: Judge, setup: str, seed: int, gates: bool) -> None:
    """As the native run is; all the other tests see that ours are not.

    What ulms.so says of gates counts where the program has some.
    """
    case = Case(seed, setup, 4.0)
    assert judge.truth(case).gates() is gates
    environment = judge.environment(case)
    found = judge.run(case, environment)
    assert judge.over_budget(case, found, environment) == ""
    resident, native = found.resident(), judge.truth(case).resident()
    operation = max(resident.operation, resident.touched)
    whole = native.most + operation  # all of it beside one operation
    line = f"resident {whole} {whole} {resident.touched} {resident.operation} {{}}\n"
    told = [
        judge.over_budget(case, replace(found, stderr=line.format(gated)), environment)
        for gated in (0, whole)
    ]
    assert ["bytes beyond" in text for text in told] == [True, setup == "vmm" or not gates]


def test_larger_pages_are_fewer(judge: Judge) -> None:
    case = Case(1, "vmm", 2.0)
    made = {}
    for page in ("2MiB", "8MiB"):
        environment = judge.environment(case) | {"ULMS_PAGE": page}
        made[page] = judge.run(case, environment, ["cuMemCreate"]).calls()["cuMemCreate"]
    assert 0 < 2 * made["8MiB"] < made["2MiB"]


@pytest.mark.parametrize("setup", SETUPS)
def test_one_after_the_other(judge: Judge, setup: str) -> None:
    """In one process, each with the device's context made anew."""
    verdicts(judge, [Case(101, setup, 2.0, count=8)])


@pytest.mark.parametrize("event", EVENTS)
def test_what_happens_to_the_process(judge: Judge, event: str) -> None:
    """It ends, or makes a child, at any moment, as it would natively."""
    seeds = range(1 + EVENTS.index(event), 1 + HAPPEN, len(EVENTS))
    verdicts(judge, [Case(seed, setup, 2.0, event=event) for seed in seeds for setup in HAPPENS])


@pytest.mark.parametrize("event", ENDS)
def test_what_ends_otherwise_is_seen(judge: Judge, event: str) -> None:
    case = Case(1, event=event)
    environment = judge.environment(case)
    found = judge.run(case, environment)
    assert judge.compare(case, found, environment) == ""
    late = replace(found, ended=found.ended + judge.truth(case).took() + LATE_S)
    for other in (replace(found, status=0), replace(found, stdout=""), late):
        assert judge.compare(case, other, environment) != ""


def test_what_is_left_behind_is_seen(judge: Judge) -> None:
    """Counters of one that was killed stay until the next."""
    case = Case(1, event="kill")
    killed = judge.run(case, judge.environment(case))
    assert len(killed.left()) == 1
    judge.run(Case(1), judge.environment(case))
    assert killed.left() == []


def calls_in_the_sources() -> set[str]:
    """Driver functions that the library calls outside of the functions that stand in for them."""
    texts = {path: path.read_text() for path in (ROOT / "csrc").rglob("*.[ch]")}
    wrapped = set(re.findall(r"\bcustom_(cu[A-Z]\w+)\(", "".join(texts.values())))
    return {
        re.sub(r"_v\d+$", "", name)
        for path, text in texts.items()
        for name in re.findall(r"\b(?:REAL\(|real_find\(API_)(cu[A-Z]\w+)", text)
        if name not in wrapped or path.parent.name == "backend"
    }


def test_every_call_of_ours_is_known() -> None:
    assert calls_in_the_sources() <= set.union(RARE, *OURS.values())


def failing(
    setup: str, calls: Mapping[str, dict[int, int]], turn: int
) -> Iterator[tuple[str, Case]]:
    """Each call's failure, another one every turn, in a program that is known to make it."""
    for number, (name, by_seed) in enumerate(calls.items()):
        kind = FAIL.index(setup) + turn + number
        failure = FAILURES[kind % (2 if name in LOST else len(FAILURES))]
        seed, count = list(by_seed.items())[(turn + number) % len(by_seed)]
        fail = name + failure.format(min(LATER, count // 2))
        yield name, Case(seed, setup, OVER[(turn + number) % len(OVER)], fail=fail)


@pytest.mark.parametrize("setup", SETUPS)
def test_over_subscribed_and_where_our_calls_fail(judge: Judge, setup: str) -> None:
    """Every driver function that ulms.so calls by itself, in programs that are seen to meet it."""
    made = judge.own_calls(looked_at(setup))
    seldom = RARE | BY_CHANCE.get(setup, set())
    calls = {name: by_seed for name, by_seed in made.items() if name not in seldom}
    assert OURS[setup] - seldom <= set(calls)
    if setup not in FAIL:
        return
    met: Counter[str] = Counter()
    seeds: set[int] = set()
    missing = calls
    for turn in range(TURNS):
        named = [*failing(setup, missing or calls, turn)][: MORE if turn else None]
        found = verdicts(judge, [case for _, case in named])
        met.update(name for (name, _), v in zip(named, found, strict=True) if v.failed)
        seeds |= {case.seed for (_, case), v in zip(named, found, strict=True) if v.failed}
        missing = {name: by_seed for name, by_seed in calls.items() if name not in met}
        if not missing and met.total() >= A_SETUP_FAILS:
            assert len(seeds) >= DISTINCT
            return
    pytest.fail(f"{met.total()} programs met a failure; none one of {set(missing)}")


FOUND = (
    Case(80352233738, "vmm", 3.47, fail="cuCtxGetDevice:sticky"),
    Case(902913678913, "ahead", 3.82),
    Case(368922097028, "ahead", 1.12, 3, "cuStreamIsCapturing:sticky:error=2", event="call"),
)
"""What `make soak` found: memory runs out on a device of which nothing was ever moved; gates,
and kernels that reach further than the next address that was seen; what was provided is freed in
stream order while the driver does not say which streams capture.
"""


@pytest.mark.parametrize("case", FOUND, ids=lambda case: f"{case.seed}")
def test_what_soak_found(judge: Judge, case: Case) -> None:
    assert judge.differs(case) == ""
