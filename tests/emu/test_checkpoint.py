"""`pump checkpoint` with a CRIU that fails in every way: the program goes on and computes what it
does alone, and no folder is there that looks whole."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pump import manifest
from tests.conftest import PATIENCE_S, clean_environment
from tests.emu.shared_device import Device, binary, device
from tests.emu.test_context_comes_back import another, started
from tests.emu.test_with_context import BEGINS, ENDS, SIZES, WORKS, Program, pump, shared
from tests.fake_criu import Fake, fake

__all__ = ["binary", "device", "fake"]
pytestmark = pytest.mark.emu


@pytest.fixture
def to(tmp_path: Path) -> Path:
    """Where a checkpoint is to be."""
    return tmp_path / "saved"


def checkpoint(
    device: Device, fake: Fake, to: Path, *words: str, who: str = "g", **env: str
) -> subprocess.CompletedProcess[str]:
    env |= {"PUMP_CRIU": str(fake.path)}
    return pump(device, "checkpoint", who, str(to), *words, **env)


def nothing_is_there(to: Path) -> bool:
    return not to.exists() and not to.with_name("saved.partial").exists()


def works(device: Device) -> None:
    """It issues operations again."""
    before = device.tenants()[0]["operations"]
    device.wait_until(lambda tenant: tenant["operations"] > before and not tenant["suspended"])


def test_it_goes_on(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device, ULMS_STATS="on")
    counters = Path("/dev/shm").glob(f"ulms-{program.process.pid}-*")
    (file,) = counters
    done = checkpoint(device, fake, to)
    assert done.returncode == 0, done.stderr
    assert f" are in {to}; it stood still for " in done.stdout
    works(device)
    assert file.exists()
    manifest.verify(to, manifest.read(to), lambda _: None)
    assert "--leave-running" in fake.words("dump")
    assert not list(device.folder.glob("bar-*"))
    program.ends()


def test_it_ends(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    done = checkpoint(device, fake, to, "--end")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"it has ended: `pump restart {to}` starts it again\n")
    assert program.process.wait(PATIENCE_S) == -signal.SIGKILL
    found = manifest.read(to)
    manifest.verify(to, found, lambda _: None)
    assert (found["pid"], found["tenants"]) == (program.process.pid, [program.process.pid])
    assert found["gpus"][0]["kind"] == "Emulated GPU"


def test_nothing_of_it_is_left_that_cannot_be_written(device: Device, fake: Fake, to: Path) -> None:
    """While CRIU runs it has no connection, and maps no file of ours that may be gone later."""
    program = Program(device, ULMS_STATS="on")
    pid, waits = program.process.pid, fake.waits(0)
    with started(device, "checkpoint", "g", str(to), PUMP_CRIU=str(fake.path)) as command:
        wait_for(to.with_name("saved.partial") / "images/pages-0.img")
        links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
        maps = Path(f"/proc/{pid}/maps").read_text()
        waits.unlink()
        assert command.wait(PATIENCE_S) == 0
    assert not [link for link in links if link.startswith("socket:")]
    assert "/dev/shm/" not in maps
    assert "ulms-lease" not in maps
    program.ends()


def wait_for(path: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.005)


UNABLE = {
    "old": ({"version": "3.17"}, {}, "CRIU 3.17 is too old: 4.0 can do it"),
    "check": ({"check": "Error (a.c:1): no vDSO"}, {}, "check`: no vDSO (a.c:1)"),
    "driver": ({}, {"EMU_DRIVER_VERSION": "12060"}, "12.8 (driver 570) can do it"),
    "none": ({}, {"PUMP_CRIU": "/nowhere"}, "or name it with --criu"),
}


@pytest.mark.parametrize("case", UNABLE)
def test_what_is_missing_is_said_before_anything_is_touched(
    device: Device, fake: Fake, to: Path, case: str
) -> None:
    program = Program(device)
    does, env, why = UNABLE[case]
    fake.does(**does)
    done = pump(device, "checkpoint", "g", str(to), **({"PUMP_CRIU": str(fake.path)} | env))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"{why}\n")
    assert done.stderr.count("\n") == 1
    assert nothing_is_there(to)
    assert device.tenants()[0]["evicted"] == 0
    program.ends()


def test_where_it_cannot_be(device: Device, fake: Fake, tmp_path: Path) -> None:
    program = Program(device)
    (tmp_path / "there").mkdir()
    for name, why in {
        "there": "is there already",
        "none/saved": "none is no folder that can be written to",
        "saved.partial": "this one is of what is not whole",
    }.items():
        done = checkpoint(device, fake, tmp_path / name)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    assert not list((tmp_path / "there").iterdir())
    program.ends()


FAILS = {
    "dump": ({"dump": "Error (s.c:1): it has a socket"}, {}, "CRIU: it has a socket (s.c:1)"),
    "driver": ({}, {"EMU_FAIL": "cuCheckpointProcessCheckpoint:error=999"}, "gives error 999"),
    "lock": ({}, {"EMU_FAIL": "cuCheckpointProcessLock:error=600"}, "gives error 600)"),
}


@pytest.mark.parametrize("ends", [[], ["--end"]])
@pytest.mark.parametrize("case", FAILS)
def test_what_fails_costs_nothing(
    device: Device, fake: Fake, to: Path, case: str, ends: list[str]
) -> None:
    program = Program(device, ULMS_STATS="on")
    does, env, why = FAILS[case]
    fake.does(**does)
    done = checkpoint(device, fake, to, *ends, **env)
    assert done.returncode == 1
    assert " no checkpoint: " in done.stderr
    assert done.stderr.endswith(f"{why}\n")
    assert nothing_is_there(to)
    works(device)
    fake.does()
    assert checkpoint(device, fake, to).returncode == 0
    program.ends()


def test_um_goes_on(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device, "um")
    done = checkpoint(device, fake, to)
    assert (done.returncode, "no managed memory (ULMS_BACKEND=um)" in done.stderr) == (1, True)
    assert nothing_is_there(to)
    works(device)
    program.ends()


@pytest.mark.parametrize("more", [[], ["--with-context"]])
def test_one_that_was_suspended_stays_so(
    device: Device, fake: Fake, to: Path, more: list[str]
) -> None:
    program = Program(device)
    assert pump(device, "suspend", "g", *more).returncode == 0
    done = checkpoint(device, fake, to)
    assert done.returncode == 0, done.stderr
    (tenant,) = device.wait_for(1)
    assert (tenant["suspended"], tenant["released"]) == (1, int(bool(more)))
    assert manifest.read(to)["suspended"] == [program.process.pid]
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


def test_one_of_two_is_named_by_its_number(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    other = device.folder / "other"
    text = f"SIZES, TOLD = {SIZES}, {str(other)!r}\n" + WORKS
    second = another(device, text)
    done = checkpoint(device, fake, to)
    assert (done.returncode, "several programs, name one by its number, or" in done.stderr) == (
        2,
        True,
    )
    assert checkpoint(device, fake, to, who=str(second.pid)).returncode == 0
    device.wait_for(2)
    other.touch()
    assert second.communicate(timeout=PATIENCE_S)[1] == ""
    program.ends()


def test_its_broker_ended_meanwhile(device: Device, fake: Fake, to: Path) -> None:
    """As one does that was started for this program: nobody was connected."""
    program = Program(device)
    waits = fake.waits(0)
    with started(device, "checkpoint", "g", str(to), PUMP_CRIU=str(fake.path)) as command:
        wait_for(to.with_name("saved.partial") / "images/pages-0.img")
        device.broker.terminate()
        device.broker.wait()
        waits.unlink()
        assert command.wait(PATIENCE_S) == 0
    works(device)
    program.ends()


@pytest.mark.parametrize("ends", [[], ["--end"]])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_command_is_killed_while_criu_writes(
    device: Device, fake: Fake, to: Path, ends: list[str], number: signal.Signals
) -> None:
    program = Program(device)
    waits = fake.waits(3)
    words = ["checkpoint", "g", str(to), *ends]
    with started(device, *words, PUMP_CRIU=str(fake.path)) as command:
        wait_for(to.with_name("saved.partial") / "images/pages-3.img")
        command.send_signal(number)
        time.sleep(0.2)
        waits.unlink()
        command.wait(PATIENCE_S)
    fake.wait_until_over()
    assert not to.exists()
    if number == signal.SIGKILL:
        device.wait_for(1)
        assert pump(device, "resume", "g").returncode == 0
    assert nothing_is_there(to) or number == signal.SIGKILL
    works(device)
    assert checkpoint(device, fake, to).returncode == 0
    assert not to.with_name("saved.partial").exists()
    program.ends()


TIMES = 8


def test_the_command_is_killed_at_any_time(device: Device, fake: Fake, to: Path) -> None:
    """What is there afterwards is whole."""
    program = Program(device)
    began = time.monotonic()
    assert checkpoint(device, fake, to).returncode == 0
    took = time.monotonic() - began
    for i in range(TIMES):
        name = to.with_name(f"saved-{i}")
        with started(device, "checkpoint", "g", str(name), PUMP_CRIU=str(fake.path)) as command:
            time.sleep(took * (i + 0.5) / TIMES)
            os.killpg(command.pid, signal.SIGKILL)
        if name.exists():
            manifest.verify(name, manifest.read(name), lambda _: None)
        fake.wait_until_over()
        device.wait_for(1)
        assert pump(device, "resume", "g").returncode == 0
        works(device)
    program.ends()


def test_two_at_the_same_time(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    waits = fake.waits(0)
    with started(device, "checkpoint", "g", str(to), PUMP_CRIU=str(fake.path)) as command:
        wait_for(to.with_name("saved.partial") / "images/pages-0.img")
        done = checkpoint(device, fake, to)
        assert (done.returncode, to.exists()) == (2, False)
        waits.unlink()
        assert command.wait(PATIENCE_S) == 0
    manifest.verify(to, manifest.read(to), lambda _: None)
    works(device)
    program.ends()


def test_criu_fails_to_end_it(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    fake.does(kill="Error (k.c:1): it lives")
    done = checkpoint(device, fake, to, "--end")
    assert done.returncode == 1
    assert done.stderr.endswith(f": {to} is whole, but CRIU: it lives (k.c:1)\n")
    manifest.verify(to, manifest.read(to), lambda _: None)
    works(device)
    program.ends()


STARTS = """
import subprocess, sys
print(subprocess.run([sys.executable, "-m", "pump", "checkpoint", str(os.getpid()), TO],
      env=ENV, stderr=subprocess.PIPE, text=True).stderr, end="", flush=True)
"""


def test_the_program_writes_itself(device: Device, fake: Fake, to: Path) -> None:
    """Its command would be stopped with it."""
    env = clean_environment() | shared(device) | {"PUMP_CRIU": str(fake.path)}
    program = Program(device, text=f"TO, ENV = {str(to)!r}, {env}\n{BEGINS}{STARTS}{ENDS}")
    assert program.process.stdout
    said = program.process.stdout.readline()
    assert said.endswith(" has started this command, and would stop it\n"), said
    assert nothing_is_there(to)
    program.ends()


def test_it_is_killed_meanwhile(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    waits = fake.waits(0)
    with started(device, "checkpoint", "g", str(to), PUMP_CRIU=str(fake.path)) as command:
        wait_for(to.with_name("saved.partial") / "images/pages-0.img")
        program.process.kill()
        program.process.communicate()
        waits.unlink()
        _, said = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, f"process {program.process.pid} has ended" in said) == (1, True)


def test_a_folder_appears_meanwhile(device: Device, fake: Fake, to: Path) -> None:
    """Nothing of it is touched."""
    program = Program(device)
    waits = fake.waits(0)
    with started(device, "checkpoint", "g", str(to), "--end", PUMP_CRIU=str(fake.path)) as command:
        wait_for(to.with_name("saved.partial") / "images/pages-0.img")
        to.mkdir()
        waits.unlink()
        assert command.wait(PATIENCE_S) == 1
    assert not list(to.iterdir())
    works(device)
    program.ends()


def restart(device: Device, fake: Fake, to: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return pump(device, "restart", str(to), *words, PUMP_CRIU=str(fake.path))


def changed(to: Path, **facts: object) -> None:
    """It says something else, and is whole."""
    found = manifest.read(to)
    found.pop("files")
    found.pop("format")
    (to / manifest.NAME).unlink()
    manifest.write(to, found | facts, lambda _: None)


def test_what_does_not_fit_is_refused(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    assert checkpoint(device, fake, to, "--end").returncode == 0
    program.process.communicate()
    done = restart(device, fake, to, "--verify")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{to} is whole: g, process {program.process.pid} (")
    found = manifest.read(to)
    gpu = {"uuid": "", "kind": "NVIDIA H100", "driver": ""}
    for facts, why in (
        ({"pump": "0.0.1"}, "it was written by pump 0.0.1, which must restart it"),
        ({"gpus": [gpu]}, "needs 1 more GPU of the kind NVIDIA H100: here is Emulated GPU"),
        ({"gpus": [*found["gpus"]] * 2}, "needs 1 more GPU of the kind Emulated GPU"),
    ):
        changed(to, **facts)
        for words in [], ["--verify"]:
            done = restart(device, fake, to, *words)
            assert (done.returncode, why in done.stderr) == (2, True), done.stderr
        changed(to, **{name: found[name] for name in facts})
    changed(to, pids=[os.getpid()])
    done = restart(device, fake, to)
    assert (done.returncode, f"its number {os.getpid()} is taken" in done.stderr) == (2, True)


def test_what_is_damaged_is_refused(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    assert checkpoint(device, fake, to, "--end").returncode == 0
    program.process.communicate()
    with (to / "images/pages-5.img").open("r+b") as file:
        file.seek(99)
        file.write(b"1")
    for words in [], ["--verify"]:
        done = restart(device, fake, to, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is damaged: images/pages-5.img has another content" in done.stderr
    assert not (fake.folder / "restore").exists()


def test_a_file_that_has_grown_is_cut_if_that_is_asked_for(
    device: Device, fake: Fake, to: Path, tmp_path: Path
) -> None:
    """CRIU would refuse it, in other words."""
    program = Program(device)
    assert checkpoint(device, fake, to, "--end").returncode == 0
    program.process.communicate()
    wrote = tmp_path / "wrote"
    changed(to, writes={str(wrote): 5})
    done = restart(device, fake, to)
    assert (done.returncode, f"{wrote}, which it writes to: No such" in done.stderr) == (2, True)
    wrote.write_text("123")
    done = restart(device, fake, to, "--truncate")
    assert (done.returncode, "had 5 bytes and has 3\n" in done.stderr) == (2, True)
    wrote.write_text("1234567")
    done = restart(device, fake, to)
    assert (done.returncode, "has 7: --truncate cuts it\n" in done.stderr) == (2, True)
    assert wrote.read_text() == "1234567"
    restart(device, fake, to, "--truncate")
    assert wrote.read_text() == "12345"


def test_criu_cannot_restart_it(device: Device, fake: Fake, to: Path) -> None:
    program = Program(device)
    assert checkpoint(device, fake, to, "--end").returncode == 0
    program.process.communicate()
    fake.does(restore="Error (r.c:1): no file")
    done = restart(device, fake, to)
    assert done.returncode == 1
    assert done.stderr.endswith(" is not restarted: CRIU: no file (r.c:1)\n")
    assert json.loads((to / manifest.NAME).read_text())["pid"] == program.process.pid
