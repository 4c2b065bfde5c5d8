"""The machine a result was measured on, and the guard that keeps its GPU safe."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime

from pump.sizes import parse_size

LIMIT = 8 << 30


def refuse_unless_safe() -> None:
    """Exits when ULMS_MANAGED_LIMIT is not set to 8 GiB or less.

    Oversubscribed managed memory can hang a GPU that others share.
    """
    text = os.environ.get("ULMS_MANAGED_LIMIT", "")
    try:
        limit = parse_size(text)
    except ValueError:
        limit = 0
    if not 0 < limit <= LIMIT:
        sys.exit("set ULMS_MANAGED_LIMIT to 8GiB or less: this runs on a GPU that others may share")


def query_gpu(field: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "unknown"


def describe() -> dict[str, str]:
    """GPU, driver, processor count, Python, commit and time.

    Where there is no repository the commit is taken from PUMP_COMMIT.
    """
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "gpu": query_gpu("name"),
        "gpu_memory": query_gpu("memory.total"),
        "driver": query_gpu("driver_version"),
        "kernel": platform.release(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "commit": done.stdout.strip() or os.environ.get("PUMP_COMMIT", "unknown"),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }
