"""Slurm with the lines of deploy/: jobs share a GPU, and leave it when they are preempted."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.emulator.run import build
from pump.cli.cdi import MEETING
from pump.paths import installed
from pump.share.broker import status
from tests.conftest import PATIENCE_S, ROOT, clean_environment
from tests.tenants import broker

pytestmark = pytest.mark.emu

DEPLOY = ROOT / "deploy"
SITE = """
ClusterName=test
SlurmctldHost=HOST
SlurmctldPort=PORT0
SlurmdPort=PORT1
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=FOLDER/state
SlurmdSpoolDir=FOLDER/spool
SlurmctldPidFile=FOLDER/controller.pid
SlurmdPidFile=FOLDER/daemon.pid
SlurmctldLogFile=FOLDER/controller.log
SlurmdLogFile=FOLDER/daemon.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
"""
"""What a site says besides: all on one machine, without munge."""
TRAIN = ("train", "8", "4", "4")
STEPS = {"low": "2400", "high": "1500"}


def lines(name: str) -> list[dict[str, str]]:
    """The settings of each line."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    words = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [dict(word.split("=", 1) for word in line) for line in words if line]


def test_the_files_agree() -> None:
    """On how many shards a GPU has, and which partition gives way."""
    settings = {name: value for line in lines("slurm.conf") for name, value in line.items()}
    (node,) = (line for line in lines("slurm.conf") if "NodeName" in line)
    low, high = (line for line in lines("slurm.conf") if "PartitionName" in line)
    gpu, shard = lines("gres.conf")
    assert (gpu["Name"], shard["Name"]) == ("gpu", "shard")
    assert gpu["File"] == shard["File"]
    assert node["Gres"] == f"gpu:1,shard:{shard['Count']}"
    assert settings["GresTypes"] == "gpu,shard"
    prolog = DEPLOY / Path(settings["TaskProlog"]).name
    assert f"/ {shard['Count']} }}" in prolog.read_text(encoding="utf-8")
    assert low["Nodes"] == high["Nodes"] == node["NodeName"]
    assert int(low["PriorityTier"]) < int(high["PriorityTier"])
    assert (low["PreemptMode"], high["PreemptMode"]) == ("SUSPEND", "OFF")
    for line in (
        {"SelectType": "select/cons_tres"},
        {"PreemptType": "preempt/partition_prio"},
        {"PreemptParameters": "suspend_grace_time=30"},
        {"PreemptMode": "SUSPEND,GANG"},
    ):
        assert line in lines("slurm.conf")


def free_port() -> str:
    with socket.socket() as made:
        made.bind(("", 0))
        return str(made.getsockname()[1])


class Cluster:
    """One node with one core, whose GPU is emulated."""

    def __init__(self, folder: Path, emulator: Path) -> None:
        self.folder, self.host = folder, socket.gethostname().partition(".")[0]
        self.env = clean_environment() | {"SLURM_CONF": str(folder / "slurm.conf")}
        self.job_env = {
            "LD_LIBRARY_PATH": str(emulator),
            "EMU_SHARED": str(folder / "device"),
            "EMU_MEMORY": "192MiB",
            "EMU_TIME": "4",
            "ULMS_MANAGED_LIMIT": "1GiB",
        }
        self.write()

    def write(self) -> None:
        """The files of deploy/, with what is of this machine."""
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "gpu").touch()
        site = SITE.replace("FOLDER", str(self.folder)).replace("HOST", self.host)
        for number in range(2):
            site = site.replace(f"PORT{number}", free_port())
        text = (DEPLOY / "slurm.conf").read_text(encoding="utf-8")
        text = re.sub("gpu01", self.host, text)
        text = re.sub(r"CPUs=\d+ RealMemory=\d+", "CPUs=1 RealMemory=1000", text)
        text = text.replace("/etc/slurm/", f"{self.folder}/")
        if self.version() < (23, 11):
            text = re.sub("^PreemptParameters.*", "", text, flags=re.M)
        (self.folder / "slurm.conf").write_text(site + text, encoding="utf-8")
        text = (DEPLOY / "gres.conf").read_text(encoding="utf-8")
        text = text.replace("/dev/nvidia0", f"{self.folder}/gpu")
        (self.folder / "gres.conf").write_text(text, encoding="utf-8")
        text = (DEPLOY / "slurm-task-prolog.sh").read_text(encoding="utf-8")
        text = text.replace("/usr/local/bin/pump", f"{sys.executable} -P -m pump")
        text = text.replace(MEETING, f"{self.folder}/share")
        prolog = self.folder / "slurm-task-prolog.sh"
        prolog.write_text(text, encoding="utf-8")
        prolog.chmod(0o755)

    def version(self) -> tuple[int, ...]:
        said = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True)
        return tuple(map(int, re.findall(r"\d+", said.stdout)[:2]))

    def command(self, *words: str, **env: str) -> str:
        run = subprocess.run(
            words,
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return run.stdout.strip()

    def submit(self, partition: str, shards: int, program: Path) -> str:
        """The number of the job, which writes to a file of the partition's name."""
        options = ["--parsable", "-n1", f"--partition={partition}", f"--gres=shard:{shards}"]
        options += [f"--output={self.folder / partition}"]
        command = shlex.join([str(program), *TRAIN, STEPS[partition]])
        return self.command("sbatch", *options, "--wrap", f"exec {command}", **self.job_env)

    def end(self) -> None:
        """Of all jobs, stopped ones too."""
        self.command("scancel", "--full", "--signal=KILL", "--user=root")
        until(lambda: not self.command("squeue", "--noheader", "--states=running,suspended"))

    def state(self, job: str) -> str:
        return self.command("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")

    def tenant(self, job: str) -> dict[str, Any]:
        """What the broker says of it; nothing: it does not share."""
        gpus = status(self.folder / "share")["gpus"]
        found = [one for gpu in gpus for one in gpu["tenants"] if one["group"] == f"job{job}"]
        return found[0] if found else {}

    def results(self, partition: str) -> list[str]:
        text = (self.folder / partition).read_text(encoding="utf-8")
        return re.findall(r"^result .*", text, re.M)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path, emulator_dir: Path) -> Iterator[Cluster]:
    """Its daemons end with the test."""
    if not shutil.which("slurmctld") or not shutil.which("slurmd"):
        pytest.skip("no Slurm (Debian's slurm-wlm)")
    if os.geteuid() != 0:
        pytest.skip("needs root, as whom Slurm's daemons run")
    made = Cluster(tmp_path, emulator_dir)
    with ExitStack() as ends, broker(installed("ulms-broker"), tmp_path / "share"):
        for daemon in ("slurmctld", "slurmd"):
            running = subprocess.Popen([daemon, "-D"], env=made.env, stderr=subprocess.DEVNULL)
            ends.callback(running.wait, PATIENCE_S)
            ends.callback(running.terminate)
        until(lambda: "idle" in made.command("sinfo", "--noheader", "--format=%T"))
        ends.callback(made.end)
        yield made


@pytest.mark.slow
def test_a_job_leaves_the_gpu_to_one_that_preempts_it(cluster: Cluster, tmp_path: Path) -> None:
    """And computes what it does alone."""
    program = build(tmp_path)
    env = clean_environment() | {"LD_LIBRARY_PATH": cluster.job_env["LD_LIBRARY_PATH"]}
    low = cluster.submit("low", 50, program)
    until(lambda: cluster.tenant(low).get("resident", 0) > 0)
    too_many = cluster.submit("high", 100, program)
    until(lambda: "Resources" in cluster.command("squeue", "-h", "--format=%r", f"-j{too_many}"))
    cluster.command("scancel", too_many)
    assert cluster.state(low) == "RUNNING"
    high = cluster.submit("high", 50, program)
    until(lambda: cluster.tenant(high).get("resident", 0) > 0)
    until(lambda: cluster.state(low) == "SUSPENDED")
    until(lambda: cluster.tenant(low)["resident"] == 0)
    assert cluster.tenant(low)["suspended"]
    until(lambda: cluster.state(high) == "COMPLETED")
    until(lambda: cluster.state(low) == "COMPLETED")
    for partition, steps in STEPS.items():
        alone = subprocess.run(
            [str(program), *TRAIN, steps], env=env, capture_output=True, text=True, check=True
        )
        results = re.findall(r"^result .*", alone.stdout, re.M)
        assert results
        assert cluster.results(partition) == results
