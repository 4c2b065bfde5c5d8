"""pump-bench: what it writes, before, during and after a long run, and how it is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pump import paths
from pump.bench import cli, pictures, simulate
from pump.bench.pictures import Watch
from pump.bench.row import Row, read_results
from pump.bench.simulated import Simulated
from pump.bench.steps import STEPS, meant
from pump.predict.systems import ALIKE
from pump.predict.yardstick import sequence_at
from pump.sim.link import LINKS, link_for
from pump.sizes import GIB
from pump.terminal.progress import Workloads
from pump.terminal.status import Status

pytestmark = [pytest.mark.unit, pytest.mark.slow]

QUICK = ["run", "resnet50", "--device", "sim", "--intervals", "0", "--oversubscription", "2"]


def interrupted_after(tasks: int) -> Callable[..., object]:
    """Tasks one after the other, and then Ctrl-C."""

    def results(work: Callable[[object], object], all_tasks: list[object], _: object) -> object:
        for task in all_tasks[:tasks]:
            yield task, work(task)
        raise KeyboardInterrupt

    return results


def test_rows_outlive_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulate, "results", interrupted_after(2))
    out = tmp_path / "a.json"
    assert cli.main([*QUICK, "--json", str(out)]) == Status.INTERRUPTED
    told = capsys.readouterr().err
    rows = read_results(out).rows
    assert [row.system for row in rows] == ["native", "um-demand"]
    assert f"interrupted: 2 of 8 runs are in {out}" in told
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert cli.main(QUICK) == Status.INTERRUPTED
    assert "2 of 8 runs were done, and none was to be kept (--json FILE)" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "--plots"])
def test_what_cannot_be_written_is_told_before_anything_runs(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Simulated, "rows", lambda *_: pytest.fail("it ran"))
    assert cli.main([*QUICK, option, "/proc/nothing/here"]) == 1
    assert "/proc/nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none/a.json", "there is no folder {0}/none"),
        ("file/a.json", "there is no folder {0}/file"),
        ("old.json", "old.json.new cannot be written beside it: Is a directory"),
        ("old.json.new", "Is a directory"),
    ],
)
def test_why_rows_cannot_be_written_is_told(
    name: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where only the new file cannot be made that takes the place of an old one."""
    monkeypatch.setattr(Simulated, "rows", lambda *_: pytest.fail("it ran"))
    for file in ("file", "old.json"):
        (tmp_path / file).write_text("of long ago", encoding="utf-8")
    (tmp_path / "old.json.new").mkdir()
    path = tmp_path / name
    assert cli.main([*QUICK, "--json", str(path)]) == 1
    assert capsys.readouterr().err == f"pump-bench: {path}: {told.format(tmp_path)}\n"
    assert (tmp_path / "old.json").read_text(encoding="utf-8") == "of long ago"


def test_a_try_leaves_a_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulate, "results", interrupted_after(0))
    old = tmp_path / "old.json"
    old.write_text("rows of long ago", encoding="utf-8")
    link = tmp_path / "link.json"
    link.symlink_to("new.json")
    for path in (old, tmp_path / "new.json", link):
        assert cli.main([*QUICK, "--json", str(path)]) == Status.INTERRUPTED
    assert {path.name for path in tmp_path.iterdir()} == {"old.json", "link.json"}
    assert old.read_text(encoding="utf-8") == "rows of long ago"
    assert "0 of 8 runs were done" in capsys.readouterr().err


def test_off_a_terminal_a_workload_that_is_done_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*QUICK, "--system", "um-demand", "--system", "zero-copy"]
    assert cli.main(words) == 0
    assert capsys.readouterr().err.startswith("resnet50: done after ")
    assert cli.main([*words, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    lines = Workloads(["a", "b", "a"], told=True)
    for name in ("a", "b", "a"):
        lines.done(name)
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["b", "a"]


def test_where_all_kernels_are_trusted_two_systems_are_one() -> None:
    """They are played once: this plays both."""
    path = paths.traces()["resnet50"]

    def played(system: str) -> Row:
        link = link_for(system, sequence_at(path))
        return simulate.simulate(path, "resnet50", system, link, 3.0)

    first, second = (played(system) for system in ALIKE)
    assert simulate.work(simulate.Task(path, 3.0, ALIKE)) == [first, second]
    path = paths.traces()["hash-join"]
    rows = simulate.work(simulate.Task(path, 3.0, ALIKE))
    assert isinstance(rows, list)
    assert rows[1] == simulate.simulate(path, "hash-join", "vmm-known", LINKS["vmm-known"], 3.0)
    assert rows[1].ms < rows[0].ms


def test_a_picture_says_how_little_memory_there_is() -> None:
    told = pictures.title(Watch("gpt2-medium", "um", 2), round(10.3 * GIB), round(5.1 * GIB))
    assert told == "gpt2-medium with half the memory it needs (5.1 GiB of 10.3 GiB), um"
    told = pictures.title(Watch("x", "vmm", 1.5), 3 * GIB, 2 * GIB)
    assert told == "x with 67% of the memory it needs (2.0 GiB of 3.0 GiB), vmm"


def test_every_recorded_step_is_described() -> None:
    assert STEPS.keys() == paths.traces().keys()


@pytest.mark.parametrize(
    ("name", "known", "other"),
    [
        ("gpt2-xl", list(STEPS), "gpt2xl"),
        ("gpt2xl", ["bert-base", "gpt2-xl"], "gpt2-xl"),
        ("gpt2-mediun", ["gpt2-small", "gpt2-medium"], "gpt2-medium"),
        ("resnet-50", list(STEPS), "resnet50"),
        ("llama", ["train", "infer"], ""),
    ],
)
def test_another_spelling_is_told(name: str, known: list[str], other: str) -> None:
    assert meant(name, known) == other
