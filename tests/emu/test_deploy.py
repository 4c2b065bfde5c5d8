"""What `pump cdi` prints and the files of deploy/ do what they are for, on the emulated device."""

import configparser
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.emulator.run import build
from pump.cli import program
from pump.cli.cdi import MEETING
from pump.paths import installed
from pump.share.broker import serves, status
from tests.conftest import PATIENCE_S, clean_environment
from tests.namespaces import contained, need_namespaces
from tests.tenants import broker

pytestmark = pytest.mark.emu

DEPLOY = Path(__file__).parents[2] / "deploy"
TRAIN = ("train", "8", "4", "4", "12")
FIELDS = {
    "spec": {"cdiVersion", "kind", "containerEdits", "devices"},
    "device": {"name", "containerEdits"},
    "edits": {"env", "mounts"},
    "mount": {"hostPath", "containerPath", "options"},
}
"""A runtime refuses a file with a field that its version does not have."""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("ULMS_SHARE_DIR", str(tmp_path / "share"))
    file = tmp_path / "ulms.json"
    assert program("cdi").main(["cdi", "--output", str(file)]) == 0
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("deploy"))


def edits_of(spec: dict[str, Any], devices: set[str]) -> list[dict[str, Any]]:
    chosen = [one["containerEdits"] for one in spec["devices"] if one["name"] in devices]
    assert len(chosen) == len(devices)
    return [spec["containerEdits"], *chosen]


def test_the_file_has_what_its_version_has(spec: dict[str, Any]) -> None:
    assert spec.keys() == FIELDS["spec"]
    assert (spec["cdiVersion"], spec["kind"]) == ("0.5.0", "ulms/memory")
    edits = [spec["containerEdits"]]
    for device in spec["devices"]:
        assert device.keys() == FIELDS["device"]
        assert re.fullmatch(r"[A-Za-z0-9]([\w.:-]*[A-Za-z0-9])?", device["name"])
        edits.append(device["containerEdits"])
    for edit in edits:
        assert edit.keys() <= FIELDS["edits"]
        assert all(re.fullmatch(r"[A-Z_]+=.+", word) for word in edit["env"])
        for mount in edit.get("mounts", []):
            assert mount.keys() == FIELDS["mount"]


def test_programs_in_containers_share_a_gpu(
    spec: dict[str, Any], binary: Path, emulator_dir: Path, tmp_path: Path
) -> None:
    """Each has nothing of the other but the broker's folder, in which root cannot write either."""
    need_namespaces()
    command = [str(binary), *TRAIN]
    base = clean_environment() | {"LD_LIBRARY_PATH": str(emulator_dir)}
    alone = subprocess.run(command, env=base, capture_output=True, text=True, check=True)
    base |= {"EMU_SHARED": str(tmp_path / "device"), "EMU_MEMORY": "192MiB", "EMU_TIME": "4"}
    folder = tmp_path / "share"
    with broker(installed("ulms-broker"), folder), ExitStack() as ends:
        move = ["mv", f"{MEETING}/broker.sock", f"{MEETING}/stolen"]
        stolen = contained([*edits_of(spec, {"share"}), {"env": ["LD_PRELOAD=", "LC_ALL=C"]}], move)
        done = subprocess.run(stolen, capture_output=True, text=True, check=False)
        assert "Read-only file system" in done.stderr
        running = []
        for backend in ("um", "vmm"):
            one = subprocess.Popen(
                contained(edits_of(spec, {backend, "share"}), command),
                env=base | {"ULMS_SHARE": backend, "ULMS_MANAGED_LIMIT": "1GiB"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            ends.callback(one.kill)
            running.append(one)
        seen: set[str] = set()
        end = time.monotonic() + PATIENCE_S
        while seen != {"um", "vmm"} and time.monotonic() < end:
            seen |= {one["group"] for gpu in status(folder)["gpus"] for one in gpu["tenants"]}
            time.sleep(0.01)
        said = [one.communicate(timeout=PATIENCE_S) for one in running]
    assert seen == {"um", "vmm"}, said
    assert [one.returncode for one in running] == [0, 0], said
    results = [
        re.findall(r"^result .*", out, re.M) for out in (alone.stdout, *(o for o, _ in said))
    ]
    assert results[0]
    assert results[0] == results[1] == results[2]


def test_a_service_starts_and_ends_a_broker(tmp_path: Path) -> None:
    unit = configparser.ConfigParser()
    unit.read(DEPLOY / "ulms-broker.service")
    service = unit["Service"]
    env = clean_environment() | {"ULMS_SHARE_DIR": str(tmp_path / "share")}
    assert {*unit.sections()} == {"Unit", "Service", "Install"}
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    assert (service["Type"], service["Restart"]) == ("forking", "on-failure")
    assert service["Environment"] == f"ULMS_SHARE_DIR=/run/{service['RuntimeDirectory']}"
    for word, there in (("ExecStart", True), ("ExecStop", False)):
        subprocess.run(as_here(service[word]), env=env, check=True, timeout=PATIENCE_S)
        assert serves(tmp_path / "share") is there


def as_here(command: str) -> list[str]:
    """A command of a file in deploy/, with the `pump` of this installation."""
    words = shlex.split(command)
    assert words[0] == "/usr/local/bin/pump"
    return ["python", "-P", "-m", "pump", *words[1:]]


@pytest.mark.parametrize(
    ("shards", "request_", "serves_node"),
    [("25", "0.25", False), ("100", "1", True), ("", None, True)],
)
def test_a_job_with_shards_shares(
    tmp_path: Path, shards: str, request_: str | None, serves_node: bool
) -> None:
    """By the broker of the node, if there is one."""
    text = (DEPLOY / "slurm-task-prolog.sh").read_text(encoding="utf-8")
    assert f'={MEETING}"' in text
    text = text.replace("/usr/local/bin/pump", f"{sys.executable} -P -m pump")
    script = tmp_path / "prolog.sh"
    script.write_text(text.replace(MEETING, str(tmp_path)), encoding="utf-8")
    if serves_node:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tmp_path / "broker.sock"))
    env = clean_environment() | {"SLURM_JOB_ID": "7", "SLURM_SHARDS_ON_NODE": shards}
    run = subprocess.run(["sh", script], env=env, capture_output=True, text=True, check=True)
    exports = dict(re.findall(r"^export (\w+)=(\S*)", run.stdout, re.M))
    share = request_ and {
        "LD_PRELOAD": str(installed("ulms.so")),
        "ULMS_SHARE": f"job7,request={request_}",
        "ULMS_SUSPEND_SIGNAL": "TSTP",
    }
    where = {"ULMS_SHARE_DIR": str(tmp_path)} if serves_node else {}
    assert exports == (share | where if share else {})


def test_a_notebooks_kernel_shares(tmp_path: Path, emulator_dir: Path) -> None:
    kernel = json.loads((DEPLOY / "jupyter-kernel.json").read_text(encoding="utf-8"))
    assert {*kernel} == {"argv", "display_name", "language"}
    words = [word.replace("{connection_file}", "FILE") for word in kernel["argv"]]
    at = words.index("--")
    command = [*words[:at], "--print", *words[at:]]
    env = clean_environment() | {"LD_LIBRARY_PATH": str(emulator_dir), "PATH": os.environ["PATH"]}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert "ULMS_SHARE=notebook,idle=30m" in said
    assert said.rstrip().endswith("python -m ipykernel_launcher -f FILE")
