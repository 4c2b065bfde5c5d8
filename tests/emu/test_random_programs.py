"""Random programs, over-subscribed, under every policy, with driver calls of ours failing: 500.

Each must say what it says without ulms.so, and end. `make soak` does the same for long.
"""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.random_programs import SETUPS, Case, Judge, compile_program, driver_functions

pytestmark = pytest.mark.emu

OVER = (1.2, 1.5, 2.0, 3.0, 4.0)
A_SETUP = 40
FAILURES = (("", ":after=3:sticky:error=2"), (":after=7", ":sticky"))
"""Of calls, taken in turn by the set-ups: once or from then on, at once or later."""
SURE = {
    "observe": {"cuFuncGetParamInfo", "cuStreamIsCapturing"},
    "vmm": {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemcpyAsync"},
}
"""What we call for certain; of a policy of `um` what all do."""
SURE_OF_POLICIES = {"cuMemAllocManaged", "cuMemPrefetchAsync", "cuEventRecord"}
WORKERS = 2


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(compile_program(tmp_path_factory.mktemp("random")))


def verdict(judge: Judge, cases: Sequence[Case]) -> None:
    """Runs all cases; fails with what differs in the first ones that do."""
    with ThreadPoolExecutor(WORKERS) as pool:
        wrong = [text for text in pool.map(judge.differs, cases) if text]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ\n" + "\n\n".join(wrong[:3])


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


@pytest.mark.parametrize("setup", SETUPS)
def test_over_subscribed(judge: Judge, setup: str) -> None:
    verdict(judge, [Case(seed, setup, OVER[seed % len(OVER)]) for seed in range(1, A_SETUP + 1)])


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
    verdict(judge, [Case(seed, setup, 2.0, count=8) for seed in (101, 121)])


@pytest.mark.parametrize("setup", SETUPS)
def test_our_calls_fail(judge: Judge, setup: str) -> None:
    """Every driver function that ulms.so calls by itself."""
    names = judge.own_calls(setup)
    assert SURE.get(setup, SURE_OF_POLICIES) <= set(names)
    seeds, overs = itertools.cycle(range(1, A_SETUP + 1)), itertools.cycle(OVER)
    failures = FAILURES[SETUPS.index(setup) % len(FAILURES)]
    verdict(
        judge,
        [
            Case(next(seeds), setup, next(overs), fail=name + failure)
            for name, failure in itertools.product(names, failures)
        ],
    )
