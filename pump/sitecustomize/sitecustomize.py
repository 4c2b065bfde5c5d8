"""Python runs this at its start where `pump run` has put its folder first: CuPy then allocates each
array in stream order, in place of parts of blocks that it keeps.

It runs in the program's Python, of any version from 3.7 on, and imports no more than that has.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = __file__.rpartition("/")[0]


class Finder:
    """Finds CuPy as it is found without this, and tells it its allocator once it is there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Of CuPy; None for all others."""
        if name != "cupy":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                choose(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def choose(cupy: Any) -> None:
    """Nothing, where CuPy or the driver is too old. What the program chooses later holds."""
    with suppress(Exception):
        cupy.cuda.set_allocator(cupy.cuda.malloc_async)


def run_the_other() -> None:
    """The one that would have run in place of this."""
    others = [folder for folder in sys.path if folder != HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec and spec.loader:
        module = type(sys)("sitecustomize")
        module.__spec__, module.__file__ = spec, spec.origin
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, Finder())
run_the_other()
