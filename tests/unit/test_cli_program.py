"""What `pump` and `pump-bench` share: how a program of several commands ends."""

import os
import subprocess
import sys

import pytest

from pump import paths
from pump.terminal.status import Status

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "words",
    [
        "pump hooks",
        "pump hooks --json",
        "pump options --markdown",
        "pump lib",
        "pump --help",
        "pump run --help",
        "pump.bench list --device sim",
        "pump.bench --version",
    ],
)
def test_a_reader_that_leaves_is_no_error(words: str) -> None:
    """However the command prints, and where argparse does."""
    assert left_alone(words) == (Status.BROKEN_PIPE, b"")


def test_a_reader_that_leaves_while_a_table_is_written_is_no_error() -> None:
    trace = paths.traces()["resnet50"]
    assert left_alone(f"pump sim {trace} --over 2 --policy none --link um") == (
        Status.BROKEN_PIPE,
        b"",
    )


def left_alone(words: str) -> tuple[int, bytes]:
    """The status of a command whose output nobody reads, and what it says of that."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", *words.split()]
    # Unbuffered, argparse sees the error, and says nothing.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=env, check=False)
    os.close(write)
    return done.returncode, done.stderr
