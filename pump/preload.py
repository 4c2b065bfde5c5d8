"""How a program is started under `ulms.so`: the environment it gets."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pump import paths

PATHS = ("ULMS_TRACE", "ULMS_STATS", "ULMS_SHARE_DIR", "ULMS_FILE_DIR")
"""Options that name a place, where ulms.so looks once CUDA starts, maybe in another folder."""


class Preloaded(NamedTuple):
    """A command and the variables that are added to or replaced in its environment."""

    command: tuple[str, ...]
    variables: dict[str, str]

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the program."""
        return {**base, **self.variables}

    def shell(self) -> str:
        """A shell command line that does the same."""
        settings = [f"{name}={value}" for name, value in self.variables.items()]
        return shlex.join(["env", *settings, *self.command])


def preload(
    command: Sequence[str],
    options: Mapping[str, str],
    *,
    emulator: bool = False,
    base: Mapping[str, str] | None = None,
) -> Preloaded:
    """What it takes to run a command under `ulms.so` with options (by their `ULMS_` names).

    With `emulator` the program finds the emulated device in place of the driver. `base` is the
    environment to add to: this process's own when None. Raises NotBuiltError where nothing is built
    and ValueError when the installed path cannot be preloaded.
    """
    base = os.environ if base is None else base
    library = str(paths.library())
    if any(separator in library for separator in " :"):
        raise ValueError(f"LD_PRELOAD cannot hold a path with a space or a colon: {library}")
    variables = {**fixed(base), **options}
    if emulator:
        variables["LD_LIBRARY_PATH"] = joined(str(paths.emulator_dir()), base, "LD_LIBRARY_PATH")
    variables["LD_PRELOAD"] = joined(library, base, "LD_PRELOAD")
    return Preloaded(tuple(command), variables)


def fixed(base: Mapping[str, str]) -> dict[str, str]:
    """The places that an environment names as seen from this folder, in full."""
    named = {name: base.get(name, "") for name in PATHS}
    return {
        name: str(Path(value).absolute())
        for name, value in named.items()
        if value and not value.startswith("/") and (name != "ULMS_STATS" or "/" in value)
    }


def joined(first: str, base: Mapping[str, str], variable: str) -> str:
    """A path put before those that a variable already lists; once only."""
    rest = [path for path in base.get(variable, "").replace(" ", ":").split(":") if path]
    return ":".join([first, *(path for path in rest if path != first)])
