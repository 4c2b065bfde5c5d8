"""No thread of a program waits without a bound: what sleeps or waits is read from the source.

`csrc/base/patience.h` is the one helper for waits of a program's threads. The compiler refuses a
caller that ignores that a wait is over (`warn_unused_result`). Here each other call that may wait
needs a reason.
"""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

CSRC = Path(__file__).parents[2] / "csrc"

WAITS = re.compile(
    r"\b(condition_wait|pthread_(?:timed|clock)?join(?:_np)?|sem_(?:timed)?wait"
    r"|pthread_barrier_wait|thread_give_way|thread_sleep|sched_yield|nanosleep|usleep|sleep|poll|futex"
    r"|cuStreamSynchronize|cuEventSynchronize|cuCtxSynchronize)\b(?=\(|, \d\))"
)

OURS = "only threads of ours run this"
REASONS = {
    "base/patience.c": "the helper",
    "base/lock.c": "a lock, held for a moment; callers of condition_wait need a reason",
    "base/thread.c": "what the helper sleeps with",
    "base/gate.c": "its context leaves or is away: the driver would answer nobody either",
    "base/background.c": "the end of a thread of ours, which is bounded",
    "backend/pager/monitor.c": "the helper, for a device's conditions",
    "backend/pager/freeze.c": OURS,
    "backend/pager/worker.c": OURS + ", but the start and the end of a thread, which are bounded",
    "backend/pager/prior.c": OURS + "; the drainer of an earlier time, which has ended",
    "backend/pager/watcher.c": OURS,
    "backend/pager/markers.c": OURS,
    "backend/vmm/frame_prefetcher.c": OURS,
    "backend/vmm/d2h_queue.c": OURS,
    "backend/vmm/filer.c": OURS,
    "backend/vmm/verify.c": "ULMS_VERIFY, which checks a program",
    "backend/vmm/driver_calls.c": OURS + ", and ULMS_VERIFY",
    "backend/pager/driver_calls.c": OURS + ", and policies to compare with, which hold nothing",
    "backend/vmm/deferred_release.c": "the driver's free waits for its context in the same place",
    "backend/vmm/range.c": "a few tries",
    "backend/pager/waiters.c": "a millisecond, before it sleeps",
    "tenant/tenant.c": OURS + ": tenant_join waits for the broker, half a second at most",
    "ledger/pending.c": "a lock: who has it calls nothing",
    "launch/kernel_code.c": OURS,
    "interpose/replace/ipc_server.c": OURS + ", but the end of the process, which is bounded",
    "interpose/account/reserved.c": "an event never recorded, which the driver does not wait for",
    "interpose/record/timing.c": "a trace's reader: " + OURS,
}


def code(path: Path) -> str:
    """Without comments and strings."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(), flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', text)


def waiting() -> dict[str, set[str]]:
    found = ((path, set(WAITS.findall(code(path)))) for path in CSRC.rglob("*.c"))
    return {path.relative_to(CSRC).as_posix(): calls for path, calls in found if calls}


def test_every_call_that_waits_is_of_the_helper_or_has_a_reason() -> None:
    assert {name: calls for name, calls in waiting().items() if name not in REASONS} == {}


def test_locks_and_conditions_are_our_own() -> None:
    """A jump out of a handler leaves those of pthread behind."""
    pthreads = re.compile(r"\bpthread_(mutex|cond|rwlock|spin)|\bsem_t\b|\bpthread_once\(")
    files = [path.name for path in CSRC.rglob("*.[ch]") if pthreads.search(code(path))]
    assert files == ["lock.c"]


def test_no_wait_goes_by_a_clock_that_may_be_set() -> None:
    settable = re.compile(r"\bCLOCK_REALTIME\b|\bpthread_(?:timed|clock)?join(?:_np)?\b")
    files = {
        path.relative_to(CSRC).as_posix()
        for path in CSRC.rglob("*.c")
        if settable.search(code(path))
    }
    assert files == {"observe/writer.c", "observe/stats.c"}, "which say when something was written"


def test_every_reason_is_needed() -> None:
    assert set(REASONS) <= set(waiting())


def test_the_helper_says_when_a_wait_is_over_to_callers_who_must_listen() -> None:
    told = {
        "base/patience.h": ["patience_left", "patience_rest"],
        "backend/pager/monitor.h": ["pager_wait", "pager_wait_for_answer"],
    }
    for header, names in told.items():
        text = " ".join((CSRC / header).read_text().split())
        for name in names:
            assert re.search(rf"__attribute__\(\(warn_unused_result\)\) \w+ {name}\(", text), name


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("condition_wait(&a, &b, 0);", True),
        ("status = REAL(cuCtxSynchronize, 0)();", True),
        ("thread_give_way(tries);", True),
        ("if (!pager_wait(d, &patience))", False),
        ("API_cuCtxSynchronize, OP_WAIT", False),
    ],
)
def test_what_waits_is_found(line: str, waits: bool) -> None:
    assert bool(WAITS.search(line)) is waits
