"""The machine a result was made on, and the guard that keeps a GPU safe that others share."""

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from pump import __version__
from pump.paths import checkout
from pump.sizes import parse_size

LIMIT = 8 << 30
UNITS = {"GB/s": 1.0, "us": 1e3}


def unsafe() -> str:
    """Why nothing may run on a GPU: ULMS_MANAGED_LIMIT is not set to 8 GiB or less. "": it may.

    Oversubscribed managed memory can hang a GPU that others share.
    """
    if 0 < managed_limit() <= LIMIT:
        return ""
    return "set ULMS_MANAGED_LIMIT to 8GiB or less: this runs on a GPU that others may share"


def refuse_unless_safe() -> None:
    """Exits where nothing may run."""
    if why := unsafe():
        sys.exit(why)


def managed_limit() -> int:
    """Bytes of managed memory that all processes together may have; 0: that is not said."""
    try:
        return parse_size(os.environ.get("ULMS_MANAGED_LIMIT", ""))
    except ValueError:
        return 0


def query_gpu(field: str) -> str:
    """A field of nvidia-smi for the first GPU; `none` where there is none."""
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    found = done.stdout.strip().splitlines()
    return found[0] if found and done.returncode == 0 else "none"


def has_gpu() -> bool:
    """There is a GPU of NVIDIA's and its driver answers."""
    return query_gpu("name") != "none"


def describe() -> dict[str, str]:
    """GPU, driver, processor, Python, version, commit and time.

    The commit is PUMP_COMMIT where that is set, else the checkout's, with "+" where files differ.
    """
    return {
        "gpu": query_gpu("name"),
        "gpu_memory": query_gpu("memory.total"),
        "driver": query_gpu("driver_version"),
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "pump": __version__,
        "commit": _commit(),
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def figure_in(text: str) -> float:
    """Of a description: `50 GB/s` in bytes a nanosecond, `7 us` in nanoseconds. Raises ValueError
    where it is neither.
    """
    value, _, unit = text.partition(" ")
    if unit not in UNITS:
        raise ValueError(f"no figure: {text}")
    return float(value) * UNITS[unit]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    if told := os.environ.get("PUMP_COMMIT"):
        return told
    root = checkout()
    found = _git(root, "rev-parse", "HEAD") if root else ""
    changed = found and _git(root, "status", "--porcelain", "--untracked-files=no")
    return found + ("+" if changed else "") or "unknown"


def _git(root: Path | None, *words: str) -> str:
    """What it says of the repository; nothing where there is none."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
