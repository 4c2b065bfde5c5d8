"""Prints what the development environment needs from the registry, from pyproject.toml alone."""

import tomllib
from pathlib import Path


def main() -> None:
    """One requirement a line: build back end, dependencies, all extras."""
    data = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    project = data["project"]
    extras = project["optional-dependencies"]
    rows = [*data["build-system"]["requires"], *project["dependencies"]]
    print("\n".join([*rows, *extras["bench"], *extras["test"], *extras["dev"]]))


if __name__ == "__main__":
    main()
