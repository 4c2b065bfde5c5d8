"""`pump completion`: what bash makes of the script; and help on a terminal."""

import argparse
import os
import pty
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pump.bench import cli as bench
from pump.cli import main, program
from pump.terminal.program import Program
from tests.conftest import PATIENCE_S
from tests.unit.test_snapshots import MAINS, parsers

pytestmark = pytest.mark.unit


def completed(
    made: Program,
    lines: list[list[str]],
    capsys: pytest.CaptureFixture[str],
    at: Path,
) -> list[set[str]]:
    """What bash offers at the end of each line of words, the last of which may be empty."""
    assert MAINS[made.name](["completion", "bash"]) == 0
    script = [
        capsys.readouterr().out,
        f"f=$(complete -p {made.name}); f=${{f##*-F }}; f=${{f%% *}}",
    ]
    for words in lines:
        script += [
            f"COMP_WORDS=({shlex.join([made.name, *words])}); COMP_CWORD={len(words)}",
            f"COMPREPLY=(); $f {made.name} {shlex.quote(words[-1])} x 2>/dev/null",
            'echo "${COMPREPLY[*]}"',
        ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
        cwd=at,
    )
    assert done.stderr == ""
    return [{*line.split()} for line in done.stdout.split("\n")[:-1]]


@pytest.mark.parametrize("made", [program(), bench.PROGRAM], ids=MAINS)
def test_bash_completes_all_commands_and_options(
    made: Program, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    every = [*parsers(made.parser())]
    options = completed(made, [[*words, "-"] for words, _ in every], capsys, tmp_path)
    assert options == [{*parser._option_string_actions} for _, parser in every]
    verbs = {words[:-1] for words, _ in every if words}
    offered = completed(made, [[*words, ""] for words in verbs], capsys, tmp_path)
    for above, found in zip(verbs, offered, strict=True):
        assert found == {words[-1] for words, _ in every if words and words[:-1] == above}


def test_bash_completes_part_of_a_word_choices_and_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "step.ulms").touch()
    (tmp_path / "steps").mkdir()
    lines = [["ru"], ["run", "--backend", "v"], ["plan", "st"], ["suspend", "--to", "st"]]
    assert completed(program(), lines, capsys, tmp_path) == [
        {"run"},
        {"vmm"},
        {"step.ulms", "steps"},
        {"steps"},
    ]


def test_zsh_has_a_script_with_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It is only read: zsh is rarely installed."""
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert script.startswith("#compdef pump\n")
    assert all(f"\n    {command.name}:'" in script for command in program().commands)


@pytest.mark.parametrize("words", [[], ["run"], ["share", "set"]], ids=" ".join)
def test_help_has_colours_on_a_terminal_alone(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are the same."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    plain = capsys.readouterr().out
    text = on_a_terminal("-m", "pump", *words, "--help")
    assert "\x1b[" in text
    assert re.sub("\x1b\\[[0-9;]*m", "", text) == plain
    without = "import sys; sys.modules['rich_argparse'] = None; from pump.cli import main; main()"
    assert on_a_terminal("-c", without, *words, "--help") == plain


@pytest.mark.parametrize("made", [program(), bench.PROGRAM], ids=MAINS)
def test_argparse_colours_nothing_by_itself(made: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.14 on it would."""
    base = argparse.ArgumentParser.__init__

    def as_3_14(parser: Any, *words: Any, **options: Any) -> None:
        base(parser, *words, **options)
        parser.color = True

    monkeypatch.setattr(argparse.ArgumentParser, "__init__", as_3_14)
    assert {vars(parser)["color"] for _, parser in parsers(made.parser())} == {False}


def on_a_terminal(*words: str) -> str:
    """What Python writes there. It is read meanwhile: a terminal holds a few KiB."""
    ours, its = pty.openpty()
    with ThreadPoolExecutor(1) as reader:
        told = reader.submit(read_all, ours)
        try:
            subprocess.run(
                [sys.executable, "-P", *words], stdout=its, timeout=PATIENCE_S, check=True
            )
        finally:
            os.close(its)  # the reader ends
    return told.result().decode().replace("\r\n", "\n")


def read_all(terminal: int) -> bytes:
    """Until its other side is closed."""
    told = b""
    with suppress(OSError):  # the end, on Linux
        while more := os.read(terminal, 65536):
            told += more
    os.close(terminal)
    return told


def test_help_longer_than_a_terminal_holds_is_read() -> None:
    assert len(on_a_terminal("-c", "print('x' * 100_000)")) == 100_001


def test_without_the_library_completion_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert capsys.readouterr().err == "pump: shtab is not installed: `pip install shtab`\n"
