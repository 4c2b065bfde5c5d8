"""`pump share` and `pump run --share`."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pump import processes
from pump.cli import main, tenants
from pump.cli.suspend import gone
from pump.share import broker
from tests.conftest import PATIENCE_S
from tests.tenants import GIB, Tenant

pytestmark = pytest.mark.unit

NO_BROKER = (
    "pump: no broker serves {} (ULMS_SHARE_DIR): `pump run --share NAME` or `pump share start`"
    " starts one\n"
)


def test_a_broker_starts_once_and_stops(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["share", "start"]) == 0
    assert main(["share", "start"]) == 0
    told = capsys.readouterr().out
    assert told == f"a broker serves {folder}\none serves already, and stays: {folder}\n"
    assert main(["share", "stop"]) == 0
    assert main(["share", "status"]) == 2
    said = capsys.readouterr().err
    assert said == NO_BROKER.format(folder)


def test_names_that_are_no_text_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["share", "start"])
    capsys.readouterr()
    for words in (["share", "set", "\udcff", "hard"], ["suspend", "\udcff"]):
        assert main(words) == 2
        assert capsys.readouterr().err.startswith("pump: ?")


def test_a_broker_is_no_child_of_who_started_it(folder: Path) -> None:
    """A checkpoint of the program that `pump run` becomes would take it along."""
    broker.start(folder)
    assert "ulms-broker" not in {processes.name(pid) for pid in processes.tree(os.getpid())}


def test_a_broker_that_a_program_started_is_told_to_stay(folder: Path) -> None:
    broker.start(folder, idle_s=0.2)
    assert main(["share", "start"]) == 0
    time.sleep(0.6)
    assert broker.serves(folder)


def test_settings_of_a_group_that_nobody_is_in_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["share", "start"])
    tenant = Tenant(folder, "train")
    capsys.readouterr()
    assert main(["share", "set", "trains", "request=0.5"]) == 0
    told = "no program shares as trains: the next one of that name gets these settings\n"
    assert capsys.readouterr().out == told
    assert main(["share", "set", "train", "request=0.5"]) == 0
    assert capsys.readouterr().out == ""
    tenant.ends()


def test_status_says_who_has_what(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["share", "start"])
    main(["share", "status"])
    assert "nobody shares a GPU" in capsys.readouterr().out
    asks = {"request": 300, "limit": 600, "hard": 1, "memory": 20 * GIB, "idle_s": 30, "pin": 1}
    tenant = Tenant(folder, "notebook", sets=1, settings=asks)
    tenant.says(
        "REPORT", need=3 * GIB, resident=2 * GIB, refilled=GIB, evicted=5 * GIB, filed=7 * GIB
    )
    while not broker.status(folder)["gpus"][0]["tenants"][0]["need"]:
        pass
    main(["share", "status"])
    lines = capsys.readouterr().out.splitlines()
    (row,) = (line for line in lines if "notebook" in line)
    words = row.split()
    assert words[:2] == ["notebook", str(os.getpid())]
    assert " alone   30 %, at most 60 % hard, 20.0 GiB, idle 30 s, pin " in row
    assert [words[i] for i in (-6, -4, -2)] == ["1.0", "5.0", "7.0"]
    assert "2.0 GiB   16.0 GiB   3.0 GiB" in row
    main(["share", "status", "--json"])
    ((told,),) = (gpu["tenants"] for gpu in json.loads(capsys.readouterr().out)["gpus"])
    assert (told["group"], told["need"], told["resident"]) == ("notebook", 3 * GIB, 2 * GIB)


def tenants_told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `pump top --json` tells of tenants, by group."""
    capsys.readouterr()
    assert main(["top", "--json", "--once"]) == 0
    objects = map(json.loads, capsys.readouterr().out.splitlines())
    return {one["tenant"]["group"]: one for one in objects if "tenant" in one}


def test_top_shows_an_object_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who waits, and what each had of the last seconds."""
    main(["share", "start"])
    first = Tenant(folder, "first", sets=1, settings={"priority": 1})
    second = Tenant(folder, "second")
    for tenant in first, second:
        tenant.says("REPORT", need=GIB, wants=1, in_flight=1, ready=1)
    while second.view.may_issue:
        pass
    second.says("DRAINED", serial=second.lease().serial)
    end = time.monotonic() + PATIENCE_S
    while (objects := tenants_told(capsys))["first"]["tenant"]["had"] <= 700:
        assert time.monotonic() < end, objects
        for tenant in first, second:
            tenant.says("REPORT", need=GIB, wants=1, in_flight=1, ready=1)
    told = {name: one["tenant"] for name, one in objects.items()}
    assert {name: one["state"] for name, one in told.items()} == {
        "first": "runs",
        "second": "waits",
    }
    assert told["second"]["had"] < 300
    assert {one["program"] for one in told.values()} == {
        Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    }
    first.says("REPORT", need=GIB)
    until_idle = time.monotonic() + PATIENCE_S
    while "idle" not in shown(capsys) and time.monotonic() < until_idle:
        pass
    assert "second" in shown(capsys)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    main(["top", "--once"])
    return capsys.readouterr().out


def test_what_left_is_no_less_than_what_went_to_the_host() -> None:
    """Pages came back after the broker was told what is there."""
    who = {"group": "train", "pid": 7, "program": "python", "away_ns": 10**9, "stays": 0}
    row = who | {"resident": 0, "evicted": 256 << 20}
    for resident, left in ((8 << 20, "256.0 MiB"), (300 << 20, "300.0 MiB")):
        told = gone(who | {"resident": resident, "evicted": 0}, row)
        assert f"{left} left the GPU in 1.000 s, 256.0 MiB of it to the host" in told


def test_a_broker_of_another_user_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Closed(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError

    monkeypatch.setattr(socket, "socket", Closed)
    assert main(["share", "status"]) == 2
    said = capsys.readouterr().err
    assert said == f"pump: the broker of {folder} obeys another user, and root\n"


def test_nobody_is_suspended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No broker, or none of that name or number."""
    assert main(["suspend", "train"]) == 2
    said = capsys.readouterr().err
    assert said == NO_BROKER.format(folder)
    main(["share", "start"])
    Tenant(folder, "train")
    for verb in "suspend", "resume":
        for who in "trains", "1", f"0{os.getpid()}", "", "x" * 70:
            assert main([verb, who]) == 2
            assert f"pump: {who}: " in capsys.readouterr().err


def test_a_number_that_a_share_has_for_a_name_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether or not there is a process of that number."""
    main(["share", "start"])
    pid = os.getpid()
    process, share = Tenant(folder, "train"), Tenant(folder, str(pid))
    other = Tenant(folder, "1")
    assert main(["suspend", str(pid)]) == main(["suspend", "1"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"pump: {n}: a share has this name: type share:{n} for the share, pid:{n} for the process"
        for n in (pid, 1)
    ]
    for who, expected in (("share:1", [0, 0, 1]), (f"pid:{pid}", [1, 1, 1])):
        assert main(["suspend", who, "--timeout", "0"]) == 1
        assert [one.lease().suspended for one in (process, share, other)] == expected


class Counts:
    """As NVML counts."""

    def processes(self) -> dict[int, int]:
        return {os.getpid(): 3 * GIB // 2}


def test_who_is_suspended_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By group or number; what left and what stays, or that it does not leave."""
    main(["share", "start"])
    tenant = Tenant(folder, "train")
    tenant.says("REPORT", need=3 * GIB, resident=3 * GIB, wants=1)
    while not broker.status(folder)["gpus"][0]["tenants"][0]["resident"]:
        pass
    capsys.readouterr()
    assert main(["suspend", str(os.getpid()), "--timeout", "1.2"]) == 1
    lease, said = tenant.lease(), capsys.readouterr().err.splitlines()
    assert (lease.suspended, lease.budget, lease.may_issue) == (1, 0, 0)
    assert said[0].startswith(f"train, process {os.getpid()} (")
    assert said[0].endswith("3.0 GiB to go")
    assert "has not left after 1.2 s: 3.0 GiB are on the GPU." in said[-1]
    tenant.says("DRAINED", serial=lease.serial)
    tenant.says("ACKNOWLEDGE", serial=lease.serial, held=GIB)
    tenant.says("REPORT", resident=GIB, stays=GIB, evicted=2 * GIB, away=lease.serial)
    assert main(["suspend", str(os.getpid())]) == 0
    assert capsys.readouterr().out.endswith(" to the host; 1.0 GiB and its context stay\n")
    monkeypatch.setattr(tenants, "nvml", lambda _: Counts())
    assert main(["suspend", str(os.getpid())]) == 0
    assert capsys.readouterr().out.endswith("; 1.0 GiB stay, with its context 1.5 GiB\n")
    assert tenants_told(capsys)["train"]["tenant"]["nvml_used"] == 3 * GIB // 2
    later = Tenant(folder, "train")
    assert later.lease().suspended  # the same process, as on another GPU
    main(["suspend", "train", "--timeout", "0"])
    joins = Tenant(folder, "train")
    assert joins.lease().suspended
    assert "suspended" in shown(capsys)
    assert main(["resume", str(os.getpid())]) == 0
    assert capsys.readouterr().out.count(" goes on\n") == 3
    after = Tenant(folder, "train")  # nor is the group suspended any more
    assert not any(one.lease().suspended for one in (tenant, later, joins, after))


def test_run_starts_what_plans_it(folder: Path) -> None:
    words = ["--share", "train,limit=0.5", "--", "sh", "-c", "echo $ULMS_SHARE at $ULMS_SHARE_DIR"]
    done = subprocess.run(
        [sys.executable, "-m", "pump", "run", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout == f"train,limit=0.5 at {folder}\n"
    assert broker.serves(folder)


def test_a_broker_that_cannot_start_says_why(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write_text("no folder", encoding="utf-8")
    assert main(["run", "--share", "n", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pump: the broker did not start: ulms-broker: ")
    assert str(folder) in said
