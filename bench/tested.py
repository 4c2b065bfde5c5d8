"""Prints what was run on a GPU, and with which version: the table of docs/recipes.md."""

import json
from dataclasses import dataclass
from pathlib import Path

from pump.bench.markdown import markdown
from pump.bench.row import read_results

TABLE = Path(__file__).with_suffix(".json")
RESULTS = Path(__file__).with_name("results")


@dataclass(frozen=True)
class Tested:
    """A program or library, its version, and the steps of a result file that show it."""

    name: str
    version: str
    file: str
    steps: tuple[str, ...]


def tested() -> list[Tested]:
    """All of them; without a version: none was run."""
    told = json.loads(TABLE.read_text(encoding="utf-8"))
    return [
        Tested(name, row.get("version", ""), row.get("in", ""), tuple(row.get("steps", ())))
        for name, row in told.items()
    ]


def page() -> str:
    """A table for each machine, and what was not run."""
    machines: dict[str, list[list[str]]] = {}
    for row in filter(lambda row: row.version, tested()):
        machine = read_results(RESULTS / row.file).machine
        where = f"{machine['gpu']}, driver {machine['driver']}"
        steps = ", ".join(f"`{step}`" for step in row.steps)
        machines.setdefault(where, []).append([row.name, row.version, steps])
    tables = [markdown([where, "version", "steps"], rows) for where, rows in machines.items()]
    missing = ", ".join(row.name for row in tested() if not row.version)
    return "\n\n".join([*tables, f"Not run: {missing}."])


if __name__ == "__main__":
    print(page())
