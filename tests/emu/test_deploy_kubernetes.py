"""What the manifests of deploy/kubernetes start works, on the emulated device."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from bench.emulator.run import build
from pump.paths import installed
from pump.share.broker import serves, status
from pump.sizes import GIB
from tests.conftest import PATIENCE_S, clean_environment
from tests.kubernetes import FOLDER, Document, admitted, documents
from tests.namespaces import contained, need_namespaces
from tests.tenants import wait_until_it_serves

pytestmark = pytest.mark.emu

TRAIN = ("train", "8", "4", "4", "12")
GROUP, NOBODY = 64285, 65534
LET_IN, SHUT_OUT = 10, 11
"""Exit statuses that a failure does not have."""


class Node:
    """Its folders, and the cluster's maps, lie in another one."""

    def __init__(self, root: Path) -> None:
        self.root = root / "node"
        self.maps = root / "maps"
        self.maps.mkdir()
        shutil.copy(FOLDER / "ulms.json", self.maps)
        text = (FOLDER / "shares.toml").read_text(encoding="utf-8")
        text = re.sub(r"^# (\[\w+\]|\w+ = .*)$", r"\1", text, flags=re.M)  # its example
        (self.maps / "shares.toml").write_text(text, encoding="utf-8")

    def path(self, named: str) -> Path:
        return self.root / named.lstrip("/")

    def edits(self, pod: Document, container: Document) -> dict[str, Any]:
        """What kubelet has the runtime do."""
        mounts = []
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            host = self.maps
            if "hostPath" in volume:
                host = self.path(volume["hostPath"]["path"])
                kind = volume["hostPath"]["type"]
                if kind == "DirectoryOrCreate":
                    host.mkdir(parents=True, exist_ok=True)
                assert host.is_file() if kind == "File" else host.is_dir()
            access = "ro" if mount.get("readOnly") else "rw"
            mounts.append(
                {
                    "hostPath": str(host),
                    "containerPath": mount["mountPath"],
                    "options": [access, "nosuid", "nodev", "bind"],
                }
            )
        env = [f"{one['name']}={one['value']}" for one in container.get("env", [])]
        return {"env": env, "mounts": mounts}


def of_image(group_file: Path) -> dict[str, Any]:
    """What Containerfile puts into the broker's image."""
    group_file.write_text(f"root:x:0:\nulms:x:{GROUP}:\n", encoding="utf-8")
    files = {
        str(group_file): "/etc/group",
        str(installed("ulms.so")): "/usr/local/lib/ulms.so",
        str(installed("ulms-broker")): "/usr/local/bin/ulms-broker",
    }
    made = [
        {"hostPath": host, "containerPath": inside, "options": ["ro", "bind"]}
        for host, inside in files.items()
    ]
    return {"mounts": made, "env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}


def least(spec: Document, command: list[str]) -> list[str]:
    """As root of the groups that the manifest says, without a capability."""
    groups = ",".join(map(str, spec["securityContext"]["supplementalGroups"]))
    assert spec["securityContext"]["runAsUser"] == 0
    return ["setpriv", "--groups", groups, "--inh-caps=-all", "--bounding-set=-all", *command]


@contextmanager
def daemon(node: Node, tmp_path: Path) -> Iterator[Path]:
    """A node with what the DaemonSet puts there, and its broker, which ends as kubelet ends it."""
    spec = documents("broker.yaml")[0]["spec"]["template"]["spec"]
    image = of_image(tmp_path / "group")
    (install,), (broker,) = spec["initContainers"], spec["containers"]
    command = contained([image, node.edits(spec, install)], least(spec, install["command"]))
    subprocess.run(command, env=clean_environment(), check=True)
    command = contained([image, node.edits(spec, broker)], least(spec, broker["command"]))
    folder = node.path("/run/ulms")
    with subprocess.Popen(command, env=clean_environment()) as running:
        try:
            wait_until_it_serves(running, folder)
            assert running.poll() is None
            yield folder
        finally:
            running.terminate()
    assert running.returncode == 0


def test_labelled_pods_share_a_gpu(tmp_path: Path, emulator_dir: Path) -> None:
    """Of a node with a broker. Neither they nor their images know of it."""
    need_namespaces()
    policy, pod = documents("policy.yaml")[0], documents("example-pod.yaml")[0]
    command = [str(build(tmp_path)), *TRAIN]
    base = clean_environment() | {"LD_LIBRARY_PATH": str(emulator_dir)}
    alone = subprocess.run(command, env=base, capture_output=True, text=True, check=True)
    base |= {"EMU_SHARED": str(tmp_path / "device"), "EMU_MEMORY": "192MiB", "EMU_TIME": "4"}
    node = Node(tmp_path)
    seen: dict[str, dict[str, Any]] = {}
    with daemon(node, tmp_path) as folder, ExitStack() as ends:
        assert {path.name for path in node.root.rglob("*.*")} == {
            *("ulms.so", "ulms.json"),
            *("broker.sock", "broker.lock"),
        }
        specs = []
        for share in ("train", "other"):
            pod["metadata"]["labels"]["ulms.dev/share"] = share
            specs.append(admitted(policy, pod)["spec"])
        running = []
        for spec in specs:  # at once: neither may be over before the other is there
            one = subprocess.Popen(
                contained([node.edits(spec, spec["containers"][0])], command),
                env=base | {"ULMS_MANAGED_LIMIT": "1GiB"},
                stdout=subprocess.PIPE,
                text=True,
            )
            ends.callback(one.kill)
            running.append(one)
        end = time.monotonic() + PATIENCE_S
        while seen.keys() != {"train", "other"} and time.monotonic() < end:
            gpus = status(folder)["gpus"]
            seen |= {one["group"]: one for gpu in gpus for one in gpu["tenants"]}
            time.sleep(0.01)
        said = [one.communicate(timeout=PATIENCE_S)[0] for one in running]
    asked = {name: (one["request"], one["memory_limit"]) for name, one in seen.items()}
    assert asked == {"train": (750, 40 * GIB), "other": (0, 0)}
    assert [one.returncode for one in running] == [0, 0]
    results = [re.findall(r"^result .*", out, re.M) for out in (alone.stdout, *said)]
    assert results[0]
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(("groups", "lets_in"), [((GROUP,), True), ((), False)])
def test_a_program_that_is_not_root_needs_the_group(groups: tuple[int, ...], lets_in: bool) -> None:
    need_namespaces()
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        with daemon(Node(Path(root)), Path(root)) as folder:
            child = get_context("fork").Process(target=as_nobody, args=(groups, folder))
            child.start()
            child.join(PATIENCE_S)
            child.kill()
            assert child.exitcode == (LET_IN if lets_in else SHUT_OUT)


def as_nobody(groups: tuple[int, ...], folder: Path) -> None:
    """Forked, as a program of nobody may not be able to read this installation."""
    os.setgroups(groups)
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    sys.exit(LET_IN if serves(folder) else SHUT_OUT)
