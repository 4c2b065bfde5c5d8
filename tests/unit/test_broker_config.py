"""The broker's settings: a configuration file in each of its forms, a command, and what programs
ask for.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pump.cli import main
from pump.paths import installed
from pump.share import broker as share
from pump.share.broker import ShareError
from tests.conftest import PATIENCE_S
from tests.tenants import GIB, Tenant, broker, connect, message

pytestmark = pytest.mark.unit

TOML = """\
# Of each GPU.
capacity = "12GiB"
turn = 0.5          # seconds

[train]
memory = "8GiB"     # of both processes
request = 0.75
limit = .9
hard = true
priority = 1
pin = true
idle = 8h
"""
GEMINI_TABLES = "[train]\nMinUtil = 0.1\nMaxUtil = 0.5\nMemoryLimit = 2GiB\n\n[other]\nMaxUtil=1\n"
GEMINI_CLIENTS = "2\ntrain 0.5 1.0 2147483648\nspace/other 0 0.5 32737418240\n\n"
ASKED = {
    "memory_limit": 0,
    "request": 0,
    "limit": 0,
    "hard": 0,
    "priority": 0,
    "pin": 0,
    "idle_s": 0,
}
FORMS = {
    "ours": (
        TOML,
        {
            "memory_limit": 8 * GIB,
            "request": 750,
            "limit": 900,
            "hard": 1,
            "priority": 1,
            "pin": 1,
            "idle_s": 28800,
        },
    ),
    "Gemini's tables": (
        GEMINI_TABLES,
        ASKED | {"memory_limit": 2 * GIB, "request": 100, "limit": 500, "hard": 1},
    ),
    "Gemini's clients": (
        GEMINI_CLIENTS,
        ASKED | {"memory_limit": 2 * GIB, "request": 500, "limit": 1000, "hard": 1},
    ),
    "empty": ("# nothing yet\n", ASKED),
}
WRONG = {
    "[a]\nrequest = 2": "2: request = 2: a part of GPU time above 0",
    "[a]\nmemory = 'much'": "2: memory = much: a size such as 8GiB, or none is accepted",
    "[a]\nhard = maybe": "2: hard = maybe: true or false is accepted",
    "[a]\npriority = 1.5": "2: priority = 1.5: a whole number is accepted",
    "[a]\n\ncolour = red": "3: colour = red: a setting named request, limit, hard, memory",
    "[a]\nMaxUtil = 7": "2: MaxUtil = 7: a part of GPU time",
    "[a]\n[b]\n[a]": "3: `a` has a table already",
    "[no spaces]": "1: a group's name has letters",
    "[a]\nwords": "2: `words` is neither [NAME] nor KEY = VALUE",
    "limit = 1": "1: `limit` stands before the first table, where capacity, turn and",
    "turn = 0": "1: turn = 0: seconds above 0 and at most 20 are accepted",
    "[a]\nidle = 30": "2: idle = 30: a time such as 30s, 10m or 8h, or none is accepted",
    "resident = 0": "1: resident = 0: a number of programs above 0 is accepted",
    "capacity = all": "1: capacity = all: a size",
    "2\na 1 1 1": "2: 2 clients are announced, and there are 1",
    "1\na 1 1": "2: a client has a name, a request, a limit and bytes of memory",
    "1\na 1 nan 1": "2: limit = nan: a part",
    "\n".join(f"[g{i}]" for i in range(65)): "65: there are more than 64 groups",
    "#" * (1 << 17): " File too large",
}


@contextmanager
def configured(folder: Path, text: str) -> Iterator[Path]:
    """A broker with a configuration file, which is what it gives."""
    file = folder / "share.toml"
    file.write_text(text, encoding="utf-8")
    with broker(installed("ulms-broker"), folder, "--config", str(file)) as running:
        yield file
        assert running.poll() is None


def settings(folder: Path, group: str = "train") -> dict[str, Any]:
    """What holds for a group that has a tenant."""
    (found,) = (
        {name: tenant[name] for name in ASKED}
        for gpu in share.status(folder)["gpus"]
        for tenant in gpu["tenants"]
        if tenant["group"] == group
    )
    return found


PARKED = 2


def wait_until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize(("text", "expected"), FORMS.values(), ids=FORMS)
def test_each_form_is_told_by_what_is_in_it(
    tmp_path: Path, text: str, expected: dict[str, int]
) -> None:
    with configured(tmp_path, text):
        tenant = Tenant(tmp_path, "train")
        assert settings(tmp_path) == expected
        assert tenant.lease().budget == (expected["memory_limit"] or 16 * GIB)
        if "capacity" in text:
            assert share.status(tmp_path)["gpus"][0]["capacity"] == 12 * GIB


@pytest.mark.parametrize(("text", "told"), WRONG.items(), ids=range(len(WRONG)))
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "share.toml"
    file.write_text(text, encoding="utf-8")
    words = [str(installed("ulms-broker")), "--dir", str(tmp_path), "--config", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"ulms-broker: {file}:{told}")


def test_a_changed_file_holds_and_a_broken_one_changes_nothing(
    tmp_path: Path,
) -> None:
    with configured(tmp_path, "[train]\nmemory = '8GiB'\n") as file:
        tenant = Tenant(tmp_path, "train", sets=1, settings={"memory": 4 * GIB, "request": 300})
        assert tenant.lease().budget == 8 * GIB  # the file wins, where it says something
        assert settings(tmp_path)["request"] == 300
        file.write_text("capacity = '10GiB'\n[train]\nmemory = '9GiB'\n", encoding="utf-8")
        wait_until(lambda: tenant.lease().budget == 9 * GIB)
        file.write_text("[train]\nmemory = '5GiB\n", encoding="utf-8")
        wait_until(lambda: bool(share.status(tmp_path)["config_wrong"]))
        wrong = share.status(tmp_path)["config_wrong"]
        assert wrong.startswith(f"{file}:2: memory = '5GiB: a size")
        assert tenant.lease().budget == 9 * GIB
        file.unlink()
        wait_until(lambda: "No such file" in share.status(tmp_path)["config_wrong"])
        file.write_text("", encoding="utf-8")
        wait_until(lambda: tenant.lease().budget == 4 * GIB)
        assert share.status(tmp_path)["config_wrong"] == ""


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    """As where Kubernetes mounts a configuration."""
    for number, request in enumerate((0.5, 0.25)):
        (tmp_path / str(number)).mkdir()
        file = tmp_path / str(number) / "share.toml"
        file.write_text(f"[train]\nrequest = {request}\n", encoding="utf-8")
    (tmp_path / "data").symlink_to("0")
    (tmp_path / "share.toml").symlink_to("data/share.toml")
    words = ["--config", str(tmp_path / "share.toml")]
    with broker(installed("ulms-broker"), tmp_path, *words):
        tenant = Tenant(tmp_path, "train")
        assert settings(tmp_path)["request"] == 500
        (tmp_path / "new").symlink_to("1")
        (tmp_path / "new").rename(tmp_path / "data")
        wait_until(lambda: settings(tmp_path)["request"] == 250)
        tenant.ends()


def test_a_command_changes_a_group_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ULMS_SHARE_DIR", str(tmp_path))
    with configured(tmp_path, "[train]\nlimit = 0.5\n") as file:
        assert main(["share", "set", "train", "memory=3GiB", "hard", "limit=none"]) == 0
        tenant = Tenant(tmp_path, "train", sets=1, settings={"memory": GIB, "priority": 2})
        assert tenant.lease().budget == 3 * GIB
        assert settings(tmp_path) == ASKED | {"memory_limit": 3 * GIB, "hard": 1, "priority": 2}
        main(["share", "set", "train", "memory=2GiB"])
        assert tenant.lease().budget == 2 * GIB
        assert main(["share", "set", "train", "limit=2"]) == 2
        assert "a part of GPU time above 0" in capsys.readouterr().err
        main(["share", "status"])
        assert f"settings from {file}" in capsys.readouterr().out.replace("\n", "")
        file.write_text("[train]\nlimit = 0.25\n", encoding="utf-8")
        wait_until(lambda: settings(tmp_path)["limit"] == 250)
        assert tenant.lease().budget == GIB


def test_what_a_group_s_programs_asked_for_ends_with_them(tmp_path: Path) -> None:
    with broker(installed("ulms-broker"), tmp_path):
        first = Tenant(tmp_path, "train", sets=1, settings={"memory": GIB})
        second = Tenant(tmp_path, "train")
        first.ends()
        while len(share.status(tmp_path)["gpus"][0]["tenants"]) > 1:
            pass
        assert settings(tmp_path)["memory_limit"] == GIB
        second.ends()
        while share.status(tmp_path)["gpus"]:
            pass
        third = Tenant(tmp_path, "train")
        assert settings(tmp_path)["memory_limit"] == 0
        third.ends()


def test_it_starts_with_a_file_or_says_what_is_wrong_and_keeps_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ULMS_SHARE_DIR", str(tmp_path / "share"))
    file = tmp_path / "share.toml"
    file.write_text("turn = 1\nturn = no\n", encoding="utf-8")
    words = ["share", "start", "--config", str(file)]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        f"pump: the broker did not start: ulms-broker: {file}:2: turn = no:"
        " seconds above 0 and at most 20 are accepted\n"
    )
    file.write_text("turn = 1\n", encoding="utf-8")
    monkeypatch.setenv("ULMS_LOG_LEVEL", "INFO")
    assert main(words) == 0
    log = tmp_path / "share" / "broker.log"
    try:
        tenants = [Tenant(log.parent, "one"), Tenant(log.parent, "two")]
        for tenant in tenants:
            tenant.says("REPORT", need=12 * GIB, wants=1, in_flight=1)
        who = f"process {os.getpid()}"
        wait_until(lambda: f"{who} joins two: 2 share the GPU" in log.read_text())
        wait_until(lambda: f" a turn for two, {who}, with " in log.read_text())
        assert main(words) == 2
        assert "`pump share stop` ends it" in capsys.readouterr().err
        file.write_text("turn = -1\n", encoding="utf-8")
        wait_until(lambda: f"{file}:1: turn = -1" in log.read_text())
    finally:
        share.stop(tmp_path / "share")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may serve a group")
def test_users_of_a_group_share_and_command_nothing() -> None:
    nobody = 65534
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        folder = Path(name) / "share"
        with broker(installed("ulms-broker"), folder, "--group", "nogroup") as running:
            os.setegid(nobody)
            os.seteuid(nobody)
            try:
                tenant = Tenant(folder)
                assert tenant.lease().budget == 16 * GIB
                with pytest.raises(ShareError, match="only the broker's own user"):
                    share.configure(folder, "g,memory=1GiB")
                with pytest.raises(ShareError, match="only the broker's own user"):
                    share.suspend(folder, "g", suspended=True)
                with pytest.raises(ShareError, match="only the broker's own user"):
                    share.stop(folder)
            finally:
                os.seteuid(0)
                os.setegid(0)
            assert running.poll() is None
            assert settings(folder, "g")["memory_limit"] == 0


@pytest.mark.parametrize("text", [b"x" * 256, b"", b"g,", b"g,request=9", b'"'])
def test_a_command_that_makes_no_sense_is_refused(tmp_path: Path, text: bytes) -> None:
    with broker(installed("ulms-broker"), tmp_path), connect(tmp_path) as asks:
        asks.settimeout(PATIENCE_S)
        asks.send(message("SET", text=text))
        assert b"a " in asks.recv(4096)
        assert asks.recv(4096) == b""


def test_who_is_idle_is_parked_until_it_wants(tmp_path: Path) -> None:
    """After its time, or as more are resident than may be."""
    with configured(tmp_path, "resident = 1\n[train]\nidle = 1s\n") as file:
        train = Tenant(tmp_path, "train")
        wait_until(lambda: train.lease().suspended == PARKED)
        other = Tenant(tmp_path, "other")
        other.says("REPORT", need=GIB, wants=1)
        assert (train.lease().budget, train.lease().may_issue) == (0, 0)
        train.says("REPORT", need=GIB, wants=1)
        wait_until(lambda: not train.lease().suspended)
        assert not other.lease().suspended
        file.write_text("resident = 1\n", encoding="utf-8")
        other.says("REPORT", need=GIB)
        wait_until(lambda: other.lease().suspended == PARKED)
        share.suspend(tmp_path, "other", suspended=False)
        assert not other.lease().suspended
