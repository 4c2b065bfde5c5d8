"""Work in processes beside each other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pump.predict.processes import results
from tests.conftest import PATIENCE_S

pytestmark = [pytest.mark.unit, pytest.mark.slow]

PROGRAM = """
import os
import time
from pump.predict.processes import results

def work(seconds):
    os.write(1, b"began\\n")
    time.sleep(seconds)

if __name__ == "__main__":
    try:
        list(results(work, [60] * 150, workers=2))
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_results_come_in_order() -> None:
    assert list(results(abs, [-3, -2, -1], workers=2)) == [(-3, 3), (-2, 2), (-1, 1)]
    with pytest.raises(ValueError, match="invalid literal"):
        list(results(int, ["1", "b"], workers=2))


def test_an_interrupt_from_the_terminal_ends_all_without_a_word(tmp_path: Path) -> None:
    """Many tasks wait: the pool ends while they are cancelled."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    for _ in range(12):
        with subprocess.Popen(
            [sys.executable, tmp_path / "program.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as started:
            assert started.stdout
            assert [started.stdout.readline() for _ in range(2)] == ["began\n"] * 2
            os.killpg(started.pid, signal.SIGINT)
            told = started.communicate(timeout=PATIENCE_S)
            assert (*told, started.returncode) == ("interrupted\n", "", 0)
