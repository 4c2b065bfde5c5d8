"""Numbers and files that are given to commands: one line says what is wrong with them."""

import argparse
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pump import cli
from pump.bench import cli as bench
from pump.sim.sequence import FIRST_LINE
from pump.sizes import parse_size
from pump.terminal.program import Program

pytestmark = pytest.mark.unit

LIMIT_S = 20
NUMBERS = [
    *(["top", "--interval", text] for text in ("nan", "inf", "1e300", "0", "fast")),
    *(["sim", "x", "--over", text] for text in ("nan", "inf", "1e300", "1e-300", "-1")),
    *(["sim", "x", "--turn-ms", text] for text in ("nan", "-1")),
    *(["sim", "x", "--tenants", text] for text in ("0", "9" * 30)),
    *(["plan", "x", "--step-ms", text] for text in ("nan", "inf", "0")),
    *(["suspend", "x", "--timeout", text] for text in ("nan", "-1")),
    *(["checkpoint", "x", "y", "--timeout", text] for text in ("nan", "-1")),
    *(["hooks", "--kernels", "x", "--architecture", text] for text in ("-1", "9" * 30)),
]


@pytest.fixture
def soon() -> Iterator[None]:
    """What waits for longer fails."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("words", NUMBERS, ids=lambda words: " ".join(words)[:40])
def test_numbers_that_nobody_means(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert f"'{words[-1]}': a " in said
    assert said.endswith(" is accepted\n")


@pytest.mark.parametrize("program", [cli.program(), bench.PROGRAM], ids=lambda one: one.name)
def test_every_number_is_looked_at(program: Program) -> None:
    """float takes nan."""
    for command in program.commands:
        parser = argparse.ArgumentParser()
        command.arguments(parser)
        found = [action.dest for action in parser._actions if action.type is float]
        assert found == []


@pytest.mark.parametrize("text", ["9" * 400, "16777216TiB", "18446744073709551616"])
def test_a_size_that_no_machine_has_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "--memory", "1GiB", "FILE"],
        ["sim", "FILE"],
        ["hooks", "--kernels", "FILE"],
        ["hooks", "--seen", "FILE"],
        ["trace", "show", "FILE"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.usefixtures("soon")
def test_a_pipe_is_not_waited_for(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert cli.main([str(path) if word == "FILE" else word for word in words]) == 2
    assert "is no regular file" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["compare"], ["share", "--looks"], ["share", "--show"]])
@pytest.mark.usefixtures("soon")
def test_nor_by_the_other_program(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    files = [str(path)] * (1 + (words == ["compare"]))
    plots = ["--plots", str(tmp_path)] if "--looks" in words else []
    assert bench.main([*words, *files, *plots]) == 2
    assert "is no regular file" in capsys.readouterr().err


def test_a_recorded_step_that_is_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "step"
    path.write_bytes(FIRST_LINE.encode() + b"\n\xff\n")
    assert cli.main(["sim", str(path)]) == 2
    assert f"pump: {path}:2: " in capsys.readouterr().err
