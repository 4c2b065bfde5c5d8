"""A broker and programs of different users: neither lets the other steer it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pump.paths import installed
from tests.conftest import PATIENCE_S, RunEmulated
from tests.emu.small_program import DRIVER
from tests.tenants import broker, connect, wait_until_it_serves

pytestmark = [
    pytest.mark.emu,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users"),
]

STRANGER = 54321
RUNS = "print(words_of((fill(start := allocated(4 * MIB), 7, 4 * MIB), start)[1], 4 * MIB))"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that any user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


def test_a_program_takes_nothing_from_a_stranger_s_broker(
    reachable: Path, run_emulated: RunEmulated
) -> None:
    program, folder = reachable / "ulms-broker", reachable / "share"
    shutil.copy(installed("ulms-broker"), program)
    folder.mkdir(mode=0o755)
    os.chown(folder, STRANGER, STRANGER)
    with subprocess.Popen([program, "--dir", folder], user=STRANGER, group=STRANGER) as running:
        try:
            wait_until_it_serves(running, folder)
            assert running.poll() is None
            env = {"ULMS_BACKEND": "um", "ULMS_SHARE": "g", "ULMS_SHARE_DIR": str(folder)}
            done = run_emulated([sys.executable, "-c", DRIVER + RUNS], env)
        finally:
            running.kill()
    assert (done.returncode, done.stdout) == (0, "{7}\n")
    assert "no broker answers" in done.stderr


def test_a_broker_lets_no_stranger_in(reachable: Path) -> None:
    folder = reachable / "share"
    with broker(installed("ulms-broker"), folder):
        folder.chmod(0o711)
        (folder / "broker.sock").chmod(0o666)  # so that the broker itself has to refuse
        os.seteuid(STRANGER)
        try:
            with connect(folder) as stranger:
                stranger.settimeout(PATIENCE_S)
                assert stranger.recv(1) == b""
        finally:
            os.seteuid(0)
