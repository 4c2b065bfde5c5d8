"""The bytes a training step truly touches against the extents that ulms.so extracts of it.

Each program runs under ulms.so with all hooks, without those of the libraries, and with the
driver's alone. One warm step is recorded by the framework itself (tests/gpu/programs/truth.py) and
joined to the trace. What was recorded stays in --raw, as do the worst operations: --again compares
it once more, without a GPU.
"""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import machine, programs
from lab.touches.compare import compare
from lab.touches.page import HOOKS, table
from lab.touches.truth import read_truth
from pump.trace import read

PROGRAMS = ("resnet", "lstm", "bert", "gpt2")
WARM = 3
DETAILS = ("by_operation", "unread", "worst")


def record(name: str, hooks: str, raw: Path) -> dict[str, Any]:
    """Runs a program whose last step is recorded; says how that went."""
    files = paths(name, hooks, raw)
    for path in files.values():
        path.unlink(missing_ok=True)
    more = {
        "ULMS_HOOKS": hooks,
        "ULMS_TRACE": str(files["trace"].absolute()),
        "TRUTH": str(files["truth"].absolute()),
    }
    try:
        done = programs.run(name, raw, observe=True, count=False, warm=WARM, timed=0, more=more)
    except subprocess.TimeoutExpired as error:
        done = programs.Result(-1, stderr=str(error))
    said = [line for line in done.stderr.splitlines() if line.startswith("[ulms]")]
    run = {
        "status": done.status,
        "numbers": done.numbers,
        "facts": done.facts,
        "seconds": done.seconds,
        "ulms": said,
        "stderr": done.stderr[-4000:] if done.status else "",
    }
    files["run"].write_text(json.dumps(run) + "\n", encoding="utf-8")
    print(f"{name:8} {hooks:10} status {done.status}  {done.seconds:.0f} s", flush=True)
    return run


def paths(name: str, hooks: str, raw: Path) -> dict[str, Path]:
    """What one run leaves behind."""
    kinds = ("trace", "truth", "run", "details")
    return {kind: raw / f"{name}-{hooks}.{kind}" for kind in kinds}


def compared(name: str, hooks: str, raw: Path) -> dict[str, Any]:
    """What comes of one run; only how it ended where it failed."""
    files = paths(name, hooks, raw)
    run: dict[str, Any] = json.loads(files["run"].read_text(encoding="utf-8"))
    if run["status"]:
        return run
    start = time.monotonic()
    run |= compare(read_truth(files["truth"]), read(files["trace"]))
    print(
        f"{name:8} {hooks:10} {run['operations']} operations, {run['launches']} launches, "
        f"{len(run['without_owner'])} kinds without owner; of {run['truth'] >> 20} MiB missed "
        f"{run['missed']} B, surplus {run['surplus']} B  ({time.monotonic() - start:.0f} s)",
        flush=True,
    )
    return run


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument(
        "--programs", default=",".join(PROGRAMS), help="which (default %(default)s)"
    )
    parser.add_argument(
        "--raw", type=Path, default=Path("build/gpu/touches"), help="traces and recorded steps"
    )
    parser.add_argument(
        "--again", action="store_true", help="run nothing: compare what is in --raw"
    )
    options = parser.parse_args()
    names = options.programs.split(",")
    described = options.raw / "machine.json"
    if not options.again:
        machine.refuse_unless_safe()
        options.raw.mkdir(parents=True, exist_ok=True)
        described.write_text(json.dumps(machine.describe()) + "\n", encoding="utf-8")
        for name in names:
            for hooks in HOOKS:
                record(name, hooks, options.raw)
    result: dict[str, Any] = {"machine": json.loads(described.read_text(encoding="utf-8"))}
    rows: list[dict[str, Any]] = []
    for name in names:
        runs = {hooks: compared(name, hooks, options.raw) for hooks in HOOKS}
        for hooks, run in runs.items():
            details = {what: run.pop(what, None) for what in DETAILS}
            cli.write(paths(name, hooks, options.raw)["details"], details)
        numbers = [run.pop("numbers") for run in runs.values()]
        equal = bool(numbers[0]) and all(each == numbers[0] for each in numbers)
        rows.append({"program": name, "numbers_equal": equal, "runs": runs})
        result["programs"] = rows
        cli.write(options.json, result)
    print(table(result))


if __name__ == "__main__":
    main()
