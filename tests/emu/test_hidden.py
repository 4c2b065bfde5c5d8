"""Addresses that no argument shows, under `vmm`: each way in which a kernel may come to one.

`hidden.c` must compute what it computes without ulms.so, though its memory moves all the time.
One way is not seen: an address that a kernel stored. That needs ULMS_HIDDEN=any, and ULMS_VERIFY
finds it.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pump import paths
from tests.conftest import Compile, RunEmulated
from tests.emu.counters import counters_in
from tests.random_programs import Case, Judge

pytestmark = pytest.mark.emu

PARTS = ("copy", "graph", "library")
"""Of `hidden.c`; its kernels are another."""
SEEN = (
    "table",
    "large",
    "rows",
    "rows_peer",
    "rows_list",
    "from_pinned",
    "from_managed",
    "rows_from_managed",
    "peer_from_pinned",
    "list",
    "variable",
    "constant",
    "inside",
    "part",
    "written",
    "written_list",
    "texture",
    "set",
    "pinned",
    "managed",
    "graph_updated",
    "graph_copy",
    "graph_written",
    "captured_copy",
    "device_graph",
    "device_blocks",
    "device_pinned",
    "memory_of_graph",
    "library",
    "library_stored",
    "library_restored",
    "library_copied",
    "library_set",
    "library_words",
    "library_managed",
    "library_captured",
    "library_pinned",
)
OVERWRITTEN = (
    "library_restored",
    "library_copied",
    "library_set",
    "library_words",
    "library_managed",
    "library_captured",
)
"""The table that a copy brought is another one by now."""
OPAQUE = ("set", "pinned", "managed", "device_pinned", "library_stored", *OVERWRITTEN)
"""What it is that such a kernel finds there is not known: nothing moves while it runs."""
TRUSTED = ("texture",)
"""Its kernels follow no address that lies in memory."""
UNSEEN = "stored"
BUFFERS = ("6", "6", "2")
"""Of a page each."""
LARGE_BUFFERS = {"device_blocks": ("3", "3", "4")}
SHARING_BUFFERS = ("3", "3", "5")
"""Of a page and a half each under SHARING: where the secrets end is a page of the others', too."""
BUDGET = {"ULMS_BACKEND": "vmm", "ULMS_GPU_MEMORY": "12MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
SHARING = {"ULMS_PAGE": "4MiB", "ULMS_GPU_MEMORY": "20MiB"}
VERIFY = {"ULMS_VERIFY": "1"}
ANY = {"ULMS_HIDDEN": "any"}
KNOWN = {"ULMS_HIDDEN": "known"}
STEPS = ("6",)
STILL = ("4", "still")
"""Steps that wait, a second each, until nothing moves."""
LATE = ("6", "late")
"""Nothing moves until one was made."""
BEHIND = ("handles", "segment")
"""Behind handles, side by side: at addresses of their own, or reserved as one."""
VIOLATION = "by an operation that does not show that it does"


def sums_of(run: CompletedProcess[str]) -> list[str]:
    """What it computed."""
    return [line for line in run.stdout.splitlines() if not line.startswith("counter ")]


class Hidden:
    """Runs hidden.c; what it computed natively is known."""

    def __init__(self, binary: Path, run_emulated: RunEmulated, run_native: RunEmulated) -> None:
        self.binary = binary
        self.run_emulated = run_emulated
        self.run_native = run_native
        self.library = f"{paths.emulator_dir()}:{paths.emulator_dir() / 'library' / '13'}"

    def run(
        self,
        case: str,
        env: Mapping[str, str],
        *steps: str,
        buffers: Sequence[str] = (),
        native: bool = False,
    ) -> CompletedProcess[str]:
        buffers = buffers or LARGE_BUFFERS.get(case, BUFFERS)
        words = [self.binary, case, *buffers, *(steps or STEPS)]
        run = self.run_native if native else self.run_emulated
        return run(words, {**env, "LD_LIBRARY_PATH": self.library})

    def check(
        self, case: str, env: Mapping[str, str], *steps: str, buffers: Sequence[str] = ()
    ) -> tuple[str, dict[str, int]]:
        """What was said, and the counters, of a run that computed what it should."""
        native = self.run(case, {}, *steps, buffers=buffers, native=True)
        found = self.run(case, {**BUDGET, **env}, *steps, buffers=buffers)
        assert (native.returncode, native.stderr) == (0, "")
        assert found.returncode == 0, found.stderr
        assert sums_of(found) == sums_of(native), found.stderr
        return found.stderr, counters_in(found.stdout)


@pytest.fixture(scope="module")
def hidden(
    compiled: Compile, run_emulated: RunEmulated, run_native: RunEmulated, emulator_dir: Path
) -> Hidden:
    binary = compiled("hidden", str(emulator_dir / "libcuda.so.1"), parts=[*PARTS, "emulated"])
    return Hidden(binary, run_emulated, run_native)


@pytest.mark.parametrize("case", SEEN)
def test_addresses_are_followed(case: str, hidden: Hidden) -> None:
    said, counters = hidden.check(case, VERIFY)
    assert (said, counters["violations"]) == ("", 0)
    assert counters["evicted_bytes"] > 0
    assert (counters["opaque"] > 0) == (case in OPAQUE)


@pytest.mark.parametrize("case", SEEN[::2])
def test_addresses_are_followed_where_buffers_share_pages(case: str, hidden: Hidden) -> None:
    said, counters = hidden.check(case, {**VERIFY, **SHARING}, "4", buffers=SHARING_BUFFERS)
    assert (said, counters["violations"]) == ("", 0)
    assert counters["evicted_bytes"] > 0


@pytest.mark.parametrize(("extra", "page"), [(VERIFY, "2MiB"), (KNOWN, "4MiB")])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("case", ["table", "list", "variable", "written", "inside"])
def test_addresses_are_followed_to_what_the_program_mapped(
    case: str, behind: str, page: str, extra: Mapping[str, str], hidden: Hidden
) -> None:
    """A segment is one for whoever has an address in it; what is reserved beside it is not."""
    env = {**extra, "ULMS_PAGE": page, "ULMS_GPU_MEMORY": "16MiB"}
    said, counters = hidden.check(case, env, "6", behind, buffers=("3", "6", "4"))
    assert (said, counters["violations"]) == ("", 0)
    assert counters["evicted_bytes"] > 0 or behind == "segment"


@pytest.mark.parametrize("case", SEEN)
def test_what_is_away_need_not_be_mapped(case: str, hidden: Hidden) -> None:
    said, counters = hidden.check(case, KNOWN)
    assert said == ""
    assert counters["evicted_bytes"] > 0


@pytest.mark.parametrize("case", SEEN)
def test_what_is_away_need_not_be_mapped_for_kernels_that_are_trusted(
    case: str, hidden: Hidden
) -> None:
    """Until the first of the others comes, in each of these cases."""
    said, counters = hidden.check(case, {"ULMS_LOG_LEVEL": "INFO"})
    told = case in OPAQUE or case in TRUSTED or case.startswith("library")
    assert said.count("may follow addresses that lie in memory") == (not told)
    assert counters["evicted_bytes"] > 0


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
@pytest.mark.parametrize("case", ["from_pinned", "peer_from_pinned"])
def test_copies_of_pinned_memory_are_read_where_every_address_counts(
    case: str, backend: str, hidden: Hidden
) -> None:
    """Others do not pay for it; a copy that is told to come from the host is always read."""
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "1GiB"}
    assert hidden.check("table", env)[1]["tables"] > 0
    assert (hidden.check(case, env)[1]["tables"] > 0) == (backend == "vmm")


def test_a_kernel_that_is_not_trusted_finds_what_is_away(hidden: Hidden) -> None:
    """What it uses is seen nowhere; were it not mapped, what is away would be other memory."""
    said, counters = hidden.check(UNSEEN, {"ULMS_LOG_LEVEL": "INFO"}, *STILL)
    assert "through may follow addresses that lie in memory" in said
    assert counters["opaque"] == 1
    assert counters["untrusted"] > 0
    native = hidden.run(UNSEEN, {}, *STILL, native=True)
    broken = hidden.run(UNSEEN, {**BUDGET, **KNOWN}, *STILL)
    assert sums_of(broken) != sums_of(native)


@pytest.mark.parametrize("case", SEEN)
def test_what_was_not_looked_at_while_everything_fitted(case: str, hidden: Hidden) -> None:
    said, counters = hidden.check(case, {**KNOWN, "ULMS_GPU_MEMORY": "18MiB"}, *LATE)
    assert said == ""
    alone = case.startswith(("graph_", "captured_"))  # what else is launched is a graph, or opaque
    assert (counters["launches_unread"] == 0) == (alone or case == "set")
    assert counters["evicted_bytes"] > 0


@pytest.mark.parametrize("case", ["inside", "library", "graph_copy", UNSEEN])
def test_any_address_may_be_hidden(case: str, hidden: Hidden) -> None:
    """Nothing is assumed of kernels: pages move only while none runs."""
    said, counters = hidden.check(case, {**VERIFY, **ANY})
    assert (said, counters["violations"]) == ("", 0)
    assert counters["evicted_bytes"] > 0


@pytest.mark.parametrize("extra", [VERIFY, KNOWN], ids=["verify", "known"])
def test_nothing_moves_where_nobody_tells_what_is_captured(
    extra: Mapping[str, str], hidden: Hidden
) -> None:
    """Operations that are taken for captured are not waited for."""
    env = {**extra, "EMU_FAIL": "cuStreamIsCapturing:sticky"}
    said, counters = hidden.check("captured_copy", env)
    assert "the driver does not tell what is captured" in said
    assert len(said.splitlines()) == 1
    assert counters["violations"] == 0


def test_what_keeps_pages_from_moving_is_told(hidden: Hidden) -> None:
    """The kernel is among those that were held: it waits until nothing moves."""
    said, counters = hidden.check("pinned", {"ULMS_LOG_LEVEL": "INFO"})
    assert f"{counters['opaque']} operations might have touched any page" in said
    assert any("  held " in line and line.endswith(": through") for line in said.splitlines())


def test_what_is_not_followed_is_found(hidden: Hidden) -> None:
    """While nothing moves it does no harm, so that the program goes on: and is told of."""
    said, counters = hidden.check(UNSEEN, VERIFY, *STILL)
    assert counters["violations"] > 0
    assert all(VIOLATION in line for line in said.splitlines() if "ERROR" in line)
    assert re.search(r"the last kernels: (\w*4open\w*, )?through", said)


def test_what_nobody_is_known_to_have_written_keeps_its_content(hidden: Hidden) -> None:
    """All of it looks dead, and leaves; nobody said that it is wanted no more."""
    _, counters = hidden.check("unshown", {}, *STILL)
    assert counters["dead_bytes"] > 0


def test_the_program_ends_at_the_first_one_if_so_asked(hidden: Hidden) -> None:
    found = hidden.run(UNSEEN, {**BUDGET, "ULMS_VERIFY": "abort"}, *STILL)
    assert found.returncode == -6
    assert VIOLATION in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("extra", [VERIFY, ANY, KNOWN], ids=["verify", "any", "known"])
def test_random_programs(extra: Mapping[str, str], random_program: Path) -> None:
    judge, case = Judge(random_program), Case(8, "vmm", 2.0)
    found = judge.run(case, {**judge.environment(case), **extra})
    assert (found.status, found.stdout) == (0, judge.truth(case).stdout), found.stderr
    assert VIOLATION not in found.stderr


def test_moves_go_on_once_who_may_touch_anything_has_run(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """Whatever was issued before it and has not run yet."""
    binary = compiled("beside_gate", str(emulator_dir / "libcuda.so.1"))
    env = {
        "ULMS_BACKEND": "vmm",
        "ULMS_HIDDEN": "any",
        "ULMS_GPU_MEMORY": "12MiB",
        "ULMS_GPU_MEMORY_FACTOR": "100",
    }
    done = run_emulated([binary], env)
    assert (done.returncode, done.stderr) == (0, "")
    counters = counters_in(done.stdout)
    assert counters["opaque"] == 1
    assert counters["evicted_bytes"] > 0
    assert counters["short_operations"] < 4  # of 8: nothing would come at all
