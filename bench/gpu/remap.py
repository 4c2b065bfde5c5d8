"""What mapping memory anew takes on a real GPU, and how many bytes a second can be moved so.

The figures behind the choices of backend `vmm` (`csrc/backend/README.md`): whether a call over many
handles is cheaper than many calls, whether threads wait for each other in the driver, and what
handles of 2 to 32 MiB reach in sum of both directions. No managed memory.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench.gpu import machine
from bench.gpu.compiled import compiled

SOURCE = Path(__file__).resolve().parent / "remap.c"
TIMEOUT_S = 400


def line(row: dict[str, object]) -> str:
    """A measurement in words."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--built", type=Path, default=Path("build/gpu"))
    options = parser.parse_args()
    machine.refuse_unless_safe()
    program = compiled(SOURCE, options.built, "-lcuda", "-lpthread")
    rows: list[dict[str, object]] = []
    result: dict[str, object] = {"machine": machine.describe(), "measurements": rows}
    with subprocess.Popen(
        ["timeout", str(TIMEOUT_S), program], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout
        for text in run.stdout:
            rows.append(json.loads(text))
            print(line(rows[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(result, indent=1) + "\n")
    if run.returncode:
        sys.exit(f"remap ended with status {run.returncode}; what it had measured is kept")


if __name__ == "__main__":
    main()
