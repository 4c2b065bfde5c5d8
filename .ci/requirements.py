"""Prints what the development environment needs from the registry, from pyproject.toml alone.

`requirements.py EXTRA...`: what the extras need.
"""

import sys
from pathlib import Path

import tomllib


def main() -> None:
    """One requirement a line: of all that a development environment needs, or of the extras."""
    data = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    project = data["project"]
    rows = [] if sys.argv[1:] else [*data["build-system"]["requires"], *project["dependencies"]]
    for extra in sys.argv[1:] or ("bench", "metrics", "parquet", "top", "test", "dev"):
        rows += project["optional-dependencies"][extra]
    print("\n".join(rows))


if __name__ == "__main__":
    main()
