"""Containers without a runtime: a command in namespaces of its own, with mounts and variables."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

EMPTY = ("/mnt", "/run", "/usr/local")
"""What a container sees nothing of but what is mounted there."""


def need_namespaces() -> None:
    """Skips the test where none may be made."""
    for tool in ("unshare", "setpriv"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool} (Debian's util-linux)")
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no namespaces of its own are allowed here")


def contained(edits: Sequence[dict[str, Any]], command: Sequence[str]) -> list[str]:
    """The command with the edits, which are as a CDI file has them. Not in a namespace of
    processes: the emulated device knows who is dead by their numbers."""
    steps = [f"mount -t tmpfs none {empty}" for empty in EMPTY]
    for mount in (mount for edit in edits for mount in edit.get("mounts", [])):
        host, inside = Path(mount["hostPath"]), Path(mount["containerPath"])
        steps += [f"mkdir -p {inside if host.is_dir() else inside.parent}"]
        steps += [] if host.is_dir() else [f"touch {inside}"]
        options = ",".join(word for word in mount["options"] if word != "bind")
        steps += [f"mount --bind {host} {inside}", f"mount -o remount,bind,{options} {inside}"]
    env = [word for edit in edits for word in edit.get("env", [])]
    steps += [f"exec {shlex.join(['env', *env, *command])}"]
    own = ["unshare", "--mount", "--ipc", "--net", "--uts"]
    return [*own, "sh", "-ec", " && ".join(steps)]
