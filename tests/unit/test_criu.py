"""CRIU as a command: how it is found, what it is asked, what is made of its complaints."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pump.criu import Criu, CriuError, complaint
from tests.conftest import PATIENCE_S
from tests.fake_criu import Fake, fake

__all__ = ["fake"]
pytestmark = pytest.mark.unit


def test_it_is_named_or_found(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Criu(str(fake.path)).version == (4, 2, 1)
    monkeypatch.setenv("PUMP_CRIU", str(fake.path))
    assert Criu().command == str(fake.path)
    monkeypatch.delenv("PUMP_CRIU")
    monkeypatch.setenv("PATH", f"{fake.path.parent}:{os.environ['PATH']}")
    assert Criu().command == str(fake.path)


def test_it_is_not_there() -> None:
    with pytest.raises(CriuError, match=r"no `/nowhere/criu`: install CRIU 4\.0 or newer"):
        Criu("/nowhere/criu")


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ({"version": "3.17.1"}, "CRIU 3.17.1 is too old: 4.0 can do it"),
        ({"check": "Error (criu/cr-check.c:1): no vDSO"}, "no vDSO (criu/cr-check.c:1)"),
        ({"check": "CRIU needs CAP_SYS_ADMIN: \nsetcap x"}, "check`: CRIU needs CAP_SYS_ADMIN"),
        ({"check": " "}, "check`: it fails"),
    ],
)
def test_it_cannot_do_it_here(fake: Fake, does: dict[str, str], why: str) -> None:
    fake.does(**does)
    with pytest.raises(CriuError) as error:
        Criu(str(fake.path)).check()
    assert str(error.value).endswith(why)


def test_what_is_no_criu(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho 7\n")
    other.chmod(0o755)
    with pytest.raises(CriuError, match="does not tell its version"):
        Criu(str(other))
    other.write_text("\x7f")
    with pytest.raises(CriuError, match="Exec format error"):
        Criu(str(other))


def test_the_first_complaint_that_matters() -> None:
    log = """(00.01) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: no
(00.02) Warn  (criu/x.c:1): something
(00.03) Error (criu/sk-unix.c:86): unix: Can't dump half of stream unix connection.
(00.04) Error (criu/cr-dump.c:1): Dumping FAILED."""
    assert complaint(log) == "unix: Can't dump half of stream unix connection. (criu/sk-unix.c:86)"
    assert complaint(log.splitlines()[0]) == ""


def test_a_program_that_goes_on(fake: Fake, tmp_path: Path) -> None:
    Criu(str(fake.path)).dump(17, tmp_path, ["--shell-job"])
    words = fake.words("dump")
    assert words[words.index("--tree") + 1] == "17"
    assert words[words.index("--images-dir") + 1] == str(tmp_path)
    assert "--leave-running" in words
    assert "--action-script" not in words
    assert words[-1] == "--shell-job"
    assert (tmp_path / "pages-1.img").exists()


@pytest.fixture
def victim() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"])


def ended(victim: "subprocess.Popen[bytes]") -> bool:
    """It is killed here if it was not."""
    time.sleep(0.1)
    was = victim.poll() is not None
    victim.kill()
    victim.wait()
    return was


def test_a_program_that_ends_does_so_once_it_is_whole(
    fake: Fake, tmp_path: Path, victim: "subprocess.Popen[bytes]"
) -> None:
    seen = []

    def whole() -> None:
        seen.append((victim.poll(), (tmp_path / "pages-1.img").exists()))

    Criu(str(fake.path)).dump(victim.pid, tmp_path, whole=whole)
    assert seen == [(None, True)]
    assert ended(victim)


def test_a_program_goes_on_if_it_is_not_whole(
    fake: Fake, tmp_path: Path, victim: "subprocess.Popen[bytes]"
) -> None:
    def whole() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        Criu(str(fake.path)).dump(victim.pid, tmp_path, whole=whole)
    assert not ended(victim)


def test_a_program_goes_on_if_criu_fails(
    fake: Fake, tmp_path: Path, victim: "subprocess.Popen[bytes]"
) -> None:
    fake.does(dump="Error (a.c:1): it has a socket")
    with pytest.raises(CriuError, match=r"CRIU: it has a socket \(a.c:1\)"):
        Criu(str(fake.path)).dump(victim.pid, tmp_path, whole=lambda: None)
    assert not ended(victim)


DUMPS = """
import os, sys, time
from pathlib import Path
from pump.criu import Criu
def whole():
    Path(sys.argv[3]).touch()
    time.sleep(1000)
Criu(sys.argv[1]).dump(int(sys.argv[2]), Path(sys.argv[4]), whole=whole)
"""


def test_a_program_goes_on_if_the_command_is_killed(
    fake: Fake, tmp_path: Path, victim: "subprocess.Popen[bytes]"
) -> None:
    """And CRIU ends."""
    told = tmp_path / "told"
    words = [str(fake.path), str(victim.pid), str(told), str(tmp_path)]
    with subprocess.Popen([sys.executable, "-c", DUMPS, *words]) as command:
        end = time.monotonic() + PATIENCE_S
        while not told.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        command.send_signal(signal.SIGKILL)
    fake.wait_until_over()
    assert not ended(victim)


def test_a_restart_says_what_is_amiss(fake: Fake, tmp_path: Path) -> None:
    fake.does(restore="Error (b.c:2): Can't fork for 17: File exists")
    with pytest.raises(CriuError, match=r"CRIU: Can't fork for 17: File exists \(b.c:2\)"):
        Criu(str(fake.path)).restore(tmp_path, ["--shell-job"])
    assert "--restore-detached" in fake.words("restore")
