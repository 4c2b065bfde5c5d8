"""The broker as a process: tenants that join, die, stop, lie and flood it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pump.paths import installed
from pump.share import broker as share
from tests.conftest import PATIENCE_S
from tests.namespaces import need_namespaces
from tests.tenants import GIB, RefusedError, Tenant, broker, connect, constants, message

pytestmark = pytest.mark.unit


@pytest.fixture(name="program")
def the_program() -> Path:
    return installed("ulms-broker")


@pytest.fixture(name="folder")
def a_folder(program: Path, tmp_path: Path) -> Iterator[Path]:
    """That of a running broker, which must still run when the test ends."""
    with broker(program, tmp_path / "share") as running:
        yield tmp_path / "share"
        assert running.poll() is None, running.communicate()[1]


def status(folder: Path) -> list[dict[str, object]]:
    """The tenants of its only GPU; none if there is no GPU."""
    gpus = share.status(folder)["gpus"]
    assert len(gpus) < 2
    return [tenant for gpu in gpus for tenant in gpu["tenants"]]


def until(what: Callable[[], bool]) -> None:
    """Waits until a function says so."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.002)


def report(**fields: int) -> dict[str, int]:
    return {"need": GIB, "resident": GIB, "wants": 1, "in_flight": 1, "ready": 1} | fields


def test_one_alone_has_everything(folder: Path) -> None:
    alone = Tenant(folder)
    lease = alone.lease()
    assert (lease.budget, lease.may_issue) == (16 * GIB, 1)
    assert (alone.view.may_issue, alone.view.tenants) == (1, 1)


def test_settings_hold_from_the_first_lease_on(folder: Path) -> None:
    settings = {"memory": 2 * GIB, "request": 500}
    assert Tenant(folder, sets=1, settings=settings).lease().budget == 2 * GIB


def test_what_one_holds_is_another_s_only_when_it_was_given_back(folder: Path) -> None:
    first = Tenant(folder)
    first.acknowledges()
    first.says("REPORT", **report(need=12 * GIB, resident=16 * GIB))
    second = Tenant(folder, floor=GIB)
    assert second.lease().budget == 0
    second.says("REPORT", **report(need=12 * GIB, resident=0))
    until(lambda: first.lease().budget < 16 * GIB)
    assert second.lease().budget == 0
    until(lambda: first.acknowledges() and second.lease().budget > 0)
    assert first.lease().budget + second.lease().budget <= 16 * GIB
    first.ends()
    until(lambda: second.acknowledges() and second.lease().budget == 16 * GIB)


def test_dead_tenants_are_gone_at_once(folder: Path) -> None:
    tenants = [Tenant(folder) for _ in range(3)]
    assert {tenant["pid"] for tenant in status(folder)} == {os.getpid()}
    until(lambda: tenants[0].view.tenants == 3)
    for tenant in tenants[1:]:
        tenant.ends()
    until(lambda: tenants[0].view.tenants == 1)
    tenants[0].ends()
    until(lambda: status(folder) == [])


def test_a_new_group_pays_for_no_other(folder: Path) -> None:
    """Which had its number."""
    stays, first = Tenant(folder, "stays"), Tenant(folder, "first")
    first.says("REPORT", **report())
    time.sleep(0.3)
    first.ends()
    until(lambda: stays.view.tenants == 1)
    second = Tenant(folder, "second", sets=1, settings={"limit": 10, "hard": 1})
    began = time.monotonic()
    second.says("REPORT", **report())
    until(lambda: bool(second.view.may_issue))
    assert time.monotonic() - began < 5


def test_another_gpu_is_another_matter(folder: Path) -> None:
    here, there = Tenant(folder), Tenant(folder, gpu=b"one more, 16 b..")
    assert here.lease().budget == there.lease().budget == 16 * GIB
    assert here.view.tenants == there.view.tenants == 1


def test_the_page_can_only_be_read(folder: Path) -> None:
    tenant = Tenant(folder)
    with pytest.raises(OSError, match="not permitted"):
        os.write(tenant.file, b"x")
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(tenant.file, 0)


WRONG = {
    "empty": b"x",
    "short": message("HELLO")[:-1],
    "long": message("HELLO") + b"x",
    "huge": b"x" * 100_000,
    "another version": bytes([1, 0, 0, 0, 9, 0, 0, 0]) + message("HELLO")[8:],
    "no such kind": b"\xff" * 64,
    "not yet a tenant": message("REPORT"),
    "no name": message("HELLO", capacity=1, rate=1),
    "a name with quotes": message("HELLO", capacity=1, rate=1, group=b'"'),
    "no end of the name": message("HELLO", capacity=1, rate=1, group=b"x" * 64),
    "no gpu": message("HELLO", group=b"g"),
    "a share above one": message(
        "HELLO", group=b"g", capacity=1, rate=1, sets=1, settings={"request": 5000}
    ),
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_who_makes_no_sense_is_dropped_and_nobody_else(folder: Path, words: bytes) -> None:
    good = Tenant(folder)
    with connect(folder) as bad:
        bad.send(words)
        while bad.recv(4096):
            pass
    assert good.view.tenants == 1
    assert Tenant(folder).lease().serial > 0


def test_processes_of_another_namespace_hold_each_its_own_of_the_host(
    program: Path, tmp_path: Path
) -> None:
    """The broker sees no number of theirs that tells them apart."""
    need_namespaces()
    apart = ["unshare", "--pid", "--fork", "--kill-child", str(program)]
    with broker(apart, tmp_path):
        first, second = Tenant(tmp_path), Tenant(tmp_path)
        assert [tenant["pid"] for tenant in status(tmp_path)] == [0, 0]
        everything = second.view.quota.host
        first.says("REPORT", host=GIB)
        until(lambda: second.view.quota.host == everything - GIB)
        second.says("REPORT", host=GIB)
        until(lambda: first.view.quota.host == everything - GIB)
        assert second.view.quota.host == everything - GIB


LIES: dict[str, tuple[str, dict[str, int]]] = {
    "a lease to come": ("ACKNOWLEDGE", {"serial": 1 << 60}),
    "more than there is": ("ACKNOWLEDGE", {"serial": 1, "held": 1 << 63}),
    "drained to come": ("DRAINED", {"serial": 1 << 60}),
    "needs everything": ("REPORT", report(need=(1 << 64) - 1, resident=(1 << 64) - 1)),
    "time runs backwards": ("REPORT", report(operations=0, refilled=1 << 63, stalled_ns=1 << 63)),
}


@pytest.mark.parametrize(("kind", "fields"), LIES.values(), ids=LIES)
def test_who_lies_takes_nothing_from_others(
    folder: Path, kind: str, fields: dict[str, int]
) -> None:
    liar, good = Tenant(folder, held=1 << 63), Tenant(folder)
    liar.says(kind, **fields)
    good.says("REPORT", **report())
    assert sum(int(str(tenant["budget"])) for tenant in status(folder)) <= 16 * GIB
    liar.ends()
    until(lambda: good.acknowledges() and good.lease().budget == 16 * GIB)


def test_descriptors_that_nobody_asked_for_are_closed(folder: Path) -> None:
    here, there = socket.socketpair()
    with connect(folder) as bad:
        socket.send_fds(bad, [message("STATUS")], [there.fileno()])
        there.close()
        assert bad.recv(1 << 18)
        here.settimeout(PATIENCE_S)
        assert here.recv(1) == b""


def test_one_that_says_nothing_is_dropped(folder: Path) -> None:
    with connect(folder) as silent:
        assert silent.recv(1) == b""


def test_a_flood_and_a_full_pipe_keep_nobody_waiting(folder: Path) -> None:
    flood = Tenant(folder)
    with connect(folder) as asks:
        for floods, words in (asks, message("STATUS")), (flood.socket, message("REPORT")):
            floods.setblocking(False)
            with suppress(BlockingIOError):
                for _ in range(10_000):
                    floods.send(words)
        assert Tenant(folder).lease().serial > 0


def test_too_many_are_told_so(folder: Path) -> None:
    tenants = [Tenant(folder) for _ in range(constants.POLICY_TENANTS)]
    for tenant in tenants:
        tenant.acknowledges()
    before = [tenant["budget"] for tenant in status(folder)]
    with pytest.raises(RefusedError, match="too many tenants share this GPU"):
        Tenant(folder, sets=1, settings={"memory": 1 << 20})
    assert [tenant["budget"] for tenant in status(folder)] == before
    tenants[0].ends()
    until(lambda: len(status(folder)) == constants.POLICY_TENANTS - 1)
    assert Tenant(folder).lease().serial > 0


def test_there_is_one_broker_a_folder_and_a_killed_one_leaves_nothing_behind(
    program: Path, tmp_path: Path
) -> None:
    with broker(program, tmp_path) as first:
        second = subprocess.run(
            [program, "--dir", tmp_path], capture_output=True, text=True, check=False
        )
        assert (second.returncode, second.stderr) == (
            0,
            f"ulms-broker: one serves {tmp_path} already\n",
        )
        old = Tenant(tmp_path)
        first.kill()
        first.wait()
        assert old.socket.recv(1) == b""
        assert old.lease().budget == 16 * GIB
    with broker(program, tmp_path):
        again = Tenant(tmp_path, held=12 * GIB)
        assert again.lease().budget == 16 * GIB


def test_it_ends_when_told_and_when_nobody_is_left(program: Path, tmp_path: Path) -> None:
    with broker(program, tmp_path) as running:
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 0
        assert not (tmp_path / "broker.sock").exists()
    with broker(program, tmp_path) as running, connect(tmp_path) as asks:
        asks.send(message("STOP"))
        assert running.wait(PATIENCE_S) == 0
    with broker(program, tmp_path, "--idle", "0.2") as running:
        tenant = Tenant(tmp_path)
        time.sleep(0.4)
        assert running.poll() is None
        tenant.ends()
        assert running.wait(PATIENCE_S) == 0


def test_one_of_another_version_says_so_and_can_be_stopped(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = share._message
    other = (constants.SHARE_VERSION + 1).to_bytes(4, "little")
    monkeypatch.setattr(
        share, "_message", lambda *words: real(*words)[:4] + other + real(*words)[8:]
    )
    with broker(program, tmp_path) as running:
        for asks in share.status, lambda at: share.configure(at, "g,limit=0.5"):
            with pytest.raises(
                share.ShareError, match="of another version: `pump share stop` ends"
            ):
                asks(tmp_path)
        share.stop(tmp_path)
        assert running.wait(PATIENCE_S) == 0


def test_it_stays_while_a_program_lives_that_was_started_to_share(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it uses a GPU by then or not; and while what it started lives."""
    monkeypatch.setenv("ULMS_SHARE_DIR", str(tmp_path))
    command = [sys.executable, "-m", "pump", "run", "--share", "g", "--", "sh", "-c"]
    with broker(program, tmp_path, "--idle", "0.2") as running:
        tenant = Tenant(tmp_path)
        stays = subprocess.run(
            [*command, "sleep 100 >/dev/null 2>&1 & echo $!"],
            capture_output=True,
            text=True,
            check=True,
        )
        tenant.ends()
        try:
            time.sleep(1)
            assert running.poll() is None
        finally:
            os.kill(int(stays.stdout), signal.SIGKILL)
        assert running.wait(PATIENCE_S) == 0


def test_a_folder_that_others_may_write_is_refused(program: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = subprocess.run([program, "--dir", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr == f"ulms-broker: {tmp_path} must be a folder that only this user may write\n"
    )


def test_a_lock_that_cannot_be_opened_is_nobody_s(program: Path, tmp_path: Path) -> None:
    (tmp_path / "broker.lock").mkdir()
    done = subprocess.run([program, "--dir", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"ulms-broker: cannot lock {tmp_path}/broker.lock: Is a directory\n"


@pytest.mark.parametrize("words", [["--speed"], ["more"], ["--idle", "soon"]])
def test_words_that_make_no_sense(program: Path, words: list[str]) -> None:
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: ulms-broker" in done.stderr
