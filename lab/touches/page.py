"""The table of docs/touches.md, from the JSON that `lab.touches.audit` wrote.

`python -m lab.touches.page JSON` prints it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from pump.bench.markdown import caption, markdown

HOOKS = ("all", "no-library", "driver")
"""The values of ULMS_HOOKS, best informed first."""
TITLES = {
    "resnet": "ResNet-50 training, fp32, batch 64",
    "lstm": "LSTM training, 4 layers of 1024, cuDNN, batch 64 x 128",
    "bert": "BERT training, bf16, 16 x 512 tokens",
    "gpt2": "GPT-2 training, bf16, 16 x 1024 tokens",
}


def share(part: int, whole: int) -> str:
    """A part in per cent; nothing at all is `0`, never a rounded one."""
    if not part or not whole:
        return str(part)
    percent = 100 * part / whole
    return f"{percent:,.0f} %" if percent >= 10 else f"{percent:.2g} %"


def cells(program: dict[str, Any]) -> list[str]:
    """A program's row. A run that failed says so."""
    runs = [program["runs"][hooks] for hooks in HOOKS]
    good = [run for run in runs if "truth" in run]
    size = f"{good[0]['truth'] / 2**20:,.0f}" if good else "-"
    columns = [
        [share(run[what], run["truth"]) if "truth" in run else "failed" for run in runs]
        for what in ("missed", "surplus")
    ]
    name = TITLES.get(program["program"], program["program"])
    return [name, size, ", ".join(columns[0]), *columns[1]]


def table(result: dict[str, Any]) -> str:
    """What was missed and what was too much, a line a program, in Markdown."""
    head = [
        "program",
        "truth, MiB a step",
        f"missed ({', '.join(HOOKS)})",
        *(f"surplus, {hooks}" for hooks in HOOKS),
    ]
    return markdown(head, [cells(program) for program in result["programs"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("json", type=Path)
    result = json.loads(parser.parse_args().json.read_text(encoding="utf-8"))
    print(f"{caption(result['machine'])}\n\n{table(result)}")


if __name__ == "__main__":
    main()
