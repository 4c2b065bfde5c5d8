"""What commands print, compared with the files in `snapshots`.

Where a change is meant, this writes them anew, and `git diff` shows what users will see:

    UPDATE_SNAPSHOTS=1 python -P -m pytest tests/unit/test_snapshots.py
"""

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pump import paths
from pump.bench import cli as bench
from pump.bench import share_row
from pump.bench.row import write_results
from pump.bench.share import NO_GPU
from pump.cli import main as pump
from pump.cli import program
from pump.terminal.printable import printable
from pump.terminal.program import Program
from tests.unit import shown
from tests.unit.bench_row import row

pytestmark = pytest.mark.unit

SNAPSHOTS = Path(__file__).parent / "snapshots"
MAINS = {"pump": pump, "pump-bench": bench.main}
WRONG = "--no-such-option"
WIDTHS = ("60", "80", "120", "")
"""Columns; "": a pipe, where nobody tells."""
STEP = str(paths.traces()["hash-join"])

as_of_3_11 = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="argparse writes help otherwise in each version"
)


def compare(name: str, told: str) -> None:
    """With the file of the name; or writes it."""
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(told, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = difflib.unified_diff(kept.splitlines(), told.splitlines(), "kept", "now", lineterm="")
    assert kept == told, "\n".join([*lines, "Is it meant? UPDATE_SNAPSHOTS=1 keeps it."])


def parsers(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """The parser of each command and verb, with the words that lead there."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, sub in action.choices.items():
                yield from parsers(sub, (*words, word))


def filled(parser: argparse.ArgumentParser) -> list[str]:
    """Words for all arguments that must be given."""
    positional = parser._get_positional_actions()
    verbs = argparse._SubParsersAction
    asked = [one for one in positional if one.required and not isinstance(one, verbs)]
    return [str(next(iter(one.choices or "1"))) for one in asked]


@as_of_3_11
@pytest.mark.parametrize("made", [program(), bench.PROGRAM], ids=MAINS)
def test_help_and_the_error_for_a_wrong_option(
    made: Program, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every command that its parser has."""
    monkeypatch.setenv("COLUMNS", "80")
    pages = []
    for words, parser in parsers(made.parser()):
        status, out, err = ended(made.name, [*words, "--help"], capsys)
        assert (status, err) == (0, "")
        is_plain(out)
        again, nothing, error = ended(made.name, [*words, WRONG, *filled(parser)], capsys)
        assert nothing == ""
        line = error.splitlines()[-1]
        name = " ".join([made.name, *words])
        pages.append(f"$ {name} --help\n{out}$ {name} {WRONG}\n{line}\n[{again}]\n")
    compare(f"{made.name}-help", "\n".join(pages))


@pytest.mark.parametrize("columns", [60, 120, 200])
@pytest.mark.parametrize("made", [program(), bench.PROGRAM], ids=MAINS)
def test_help_fits(made: Program, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    pages = {words: parser.format_help() for words, parser in parsers(made.parser())}
    widest = {words: max(map(len, page.splitlines())) for words, page in pages.items()}
    assert {words: width for words, width in widest.items() if width > columns} == {}


def ended(
    name: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> tuple[object, str, str]:
    """The exit status of a command, and what it says."""
    try:
        status: object = MAINS[name](words)
    except SystemExit as end:
        status = end.code
    told = capsys.readouterr()
    return status, told.out, told.err


def is_plain(text: str) -> None:
    """As a pipe wants it."""
    assert text == printable(text)
    assert not re.search("[ \t]$", text, re.MULTILINE)


TABLES = {
    "options": "pump options",
    "hooks": "pump hooks --all",
    "trace": f"pump trace show {STEP}",
    "plan": f"pump plan {STEP} --memory 2GiB",
    "sim": f"pump sim {STEP} --link um --over 2 --over 3",
    "share": "pump share status",
    "top": "pump top --once",
    "compare": "pump-bench compare before.json after.json",
    "list": "pump-bench list --device gpu",
    "bound": "pump-bench bound before.json",
}
LINES = {
    "doctor": "pump doctor",
    "run": "pump run --print --memory 8GiB --share notebook,idle=30m -- python train.py",
    "suspend": "pump suspend away",
    "resume": "pump resume away",
    "metrics": "pump metrics",
    "lib": "pump lib",
    "cdi": "pump cdi",
    "table": "pump-bench table before.json",
    "played": "pump-bench share --show played.json",
}
"""What is the same at every width."""
ELSEWHERE = {
    "pump share": {"start", "set", "stop"},  # say nothing
    "pump trace": {"run", "export", "compress"},  # tests/emu/test_cli_trace.py: a line each
    # test_cli_completion.py, tests/emu/test_checkpoint.py, tests/emu/test_restart.py
    "pump": {"completion", "checkpoint", "restart"},
    "pump-bench": {"completion", "run"},  # its table is that of bound
}
BEGINS: dict[str, Callable[[str], bool]] = {"plan": lambda line: "factor" in line}
"""The line with which what is kept begins: what a link is taken to do is in the line before."""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands find, and the files that they read."""
    shown.make_up(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for file, ms in (("before", 1234.5), ("after", 1000.25)):
        rows = [row(system, ms, workload="decode-3b") for system in ("um", "vmm", "um-demand")]
        write_results(Path(f"{file}.json"), shown.MACHINE, rows)
    nowhere = shown.MACHINE | {"gpu": NO_GPU}
    Path("played.json").write_text(json.dumps(share_row.to_json(nowhere, shown.PLAYED)))


@pytest.mark.usefixtures("few", "made_up")
@pytest.mark.parametrize("name", TABLES)
def test_tables(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each width, and in a pipe: no line ends with spaces, nothing steers a terminal."""
    command, *words = TABLES[name].split()
    pages = []
    for columns in WIDTHS:
        monkeypatch.setenv("COLUMNS", columns)
        status, out, _ = ended(command, words, capsys)
        assert status == 0
        is_plain(out)
        lines = out.splitlines()
        folded = [line for line in lines if not line.startswith(" " * 4)]  # a command is not
        assert not columns or max(map(len, folded)) <= int(columns)
        first = next((i for i, line in enumerate(lines) if BEGINS.get(name, bool)(line)), 0)
        pages.append("\n".join([f"--- {columns or 'pipe'}", *lines[first:], ""]))
    compare(name, "".join(pages))


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("name", LINES)
def test_lines(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "metrics":
        pytest.importorskip("prometheus_client")
    shown.install(monkeypatch)
    command, *words = LINES[name].split()
    pages = set()
    for columns in WIDTHS:
        monkeypatch.setenv("COLUMNS", columns)
        status, out, error = ended(command, words, capsys)
        is_plain(out)
        pages.add(f"{out}{error}[{status:d}]\n")
    assert len(pages) == 1
    compare(name, pages.pop())


@pytest.mark.parametrize("made", [program(), bench.PROGRAM], ids=MAINS)
def test_every_command_is_here(made: Program) -> None:
    """With what it prints."""
    printed = {tuple(line.split()) for line in (TABLES | LINES).values()}
    for words, parser in parsers(made.parser()):
        named = (made.name, *words)
        above = " ".join(named[:-1])
        verbs = any(isinstance(one, argparse._SubParsersAction) for one in parser._actions)
        if not verbs and named[-1] not in ELSEWHERE.get(above, set()):
            assert any(line[: len(named)] == named for line in printed), named
