"""Memory holds what it held as long as no operation of the program has overwritten it.

`contents.c` judges itself, over four times as much memory as its budget.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu
TRIES = 5

TRIES = 5

Contents = Callable[[str, str], dict[str, int]]


@pytest.fixture
def contents(compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> Contents:
    """Runs a part of contents.c under a backend; returns what it counted."""
    binary = compiled(
        "contents", str(emulator_dir / "libcuda.so.1"), parts=["graph", "cut", "copy"]
    )

    def run(part: str, backend: str) -> dict[str, int]:
        env = {
            "ULMS_BACKEND": backend,
            "ULMS_GPU_MEMORY": "8MiB",
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": "1GiB",
        }
        done = run_emulated([binary, part], env)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        lines = (line.removeprefix("counter ").split() for line in done.stdout.splitlines())
        return {name: int(value) for name, value in lines}

    return run


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_refused_calls_change_nothing(contents: Contents, backend: str) -> None:
    """Pages that they would overwrite as a whole have their content, too."""
    assert contents("refused", backend)["filled_bytes"] > 0


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_who_overtakes_reads_what_there_was(contents: Contents, backend: str) -> None:
    """An operation is held for its pages; another reads those that came, and was meant to."""
    assert contents("overtaken", backend)["held_ns"] > 0


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_graph_may_have_any_number_of_touches(contents: Contents, backend: str) -> None:
    """Its nodes touch 5600 ranges, and all together more than the budget holds."""
    counters = contents("graph", backend)
    assert (counters["graphs_cut"], counters["short_operations"]) == (2, 0)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_what_nobody_wants_leaves_without_its_bytes(contents: Contents, backend: str) -> None:
    assert contents("dead", backend)["dead"] == 0


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_blocks_given_out_while_all_fitted(contents: Contents, backend: str) -> None:
    """A page that two share is wanted until both are gone, and then no more.

    That they were used is known soon after: not where the machine does something else.
    """
    assert any(contents("early", backend)["dead"] == 0 for _ in range(TRIES))
    assert contents("shared", backend)["evicted_bytes"] > 0


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_graph_of_which_nothing_is_known_keeps_what_it_uses(
    contents: Contents, backend: str
) -> None:
    """It still runs when the framework takes back the block that it writes and reads."""
    assert contents("unread", backend)["moves"] > 0


def test_a_word_stays_while_a_stream_waits_for_it(contents: Contents) -> None:
    """In `vmm`: a driver takes no word of managed memory."""
    assert contents("awaited", "vmm")["evicted_bytes"] > 0


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_what_a_node_of_another_order_is_set_to(contents: Contents, backend: str) -> None:
    """Whose touches change is not known: it touches all of them, and no more."""
    counters = contents("reordered", backend)
    assert counters["evicted_bytes"] > 0
    assert counters.get("opaque", 0) == 0


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_disabled_node_counts_from_the_next_update_on(contents: Contents, backend: str) -> None:
    """A driver may enable it."""
    counters = contents("disabled", backend)
    assert (counters["disabled"], counters["updated"]) == (4, 8)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_copies_and_fills_of_every_shape_find_what_moved_away(
    contents: Contents, backend: str
) -> None:
    counters = contents("copies", backend)
    assert min(counters["evicted_bytes"], counters["filled_bytes"]) > 32 << 20  # all that there is


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_graph_in_pieces_does_what_it_did(contents: Contents, backend: str) -> None:
    """What is joined by a programmatic edge, over three blocks, is in one piece."""
    counters = contents("pieces", backend)
    assert (counters["ended"], counters["elsewhere"], counters["graphs_cut"]) == (4, 4, 8)
    assert backend == "vmm" or counters["largest_bytes"] == 12 << 20


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_graph_in_pieces_moves_what_its_nodes_would(contents: Contents, backend: str) -> None:
    """None of which needs much: a block, in whole pages. How much moves depends on time, too: it is
    looked at until it is no more.
    """
    for _ in range(TRIES):
        counters = contents("replayed", backend)
        assert (counters["graphs_cut"], counters["largest_bytes"] <= 16 << 20) == (13, True)
        assert counters["replayed"] > 0
        if counters["replayed"] < 2 * counters["issued"]:
            break
    else:
        pytest.fail(f"{counters['replayed']} MiB, and {counters['issued']} where nodes are issued")
    assert (counters["whole"], counters["halves"]) == (
        1,
        2,
    )  # of one node, of two that fit together
