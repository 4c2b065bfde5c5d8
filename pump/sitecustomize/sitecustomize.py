"""Python runs this at its start where `pump run` has put its folder first: the library then hears
of each array of CuPy's, which are parts of larger memory that CuPy keeps.

It runs in the program's Python, of any version from 3.7 on, and imports no more than that has.
"""

from __future__ import annotations

import ctypes
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
    """Nothing, where CuPy or the library is too old. What the program chooses later holds."""
    with suppress(Exception):
        pool, listen = telling(cupy, ctypes.CDLL(None).ulms_block)
        cupy.cuda.set_allocator(pool.malloc)
        cupy._default_memory_pool = pool
        listen()


def telling(cupy: Any, tell: Any) -> tuple[Any, Any]:
    """A pool to be CuPy's default one, and what hooks the calling thread, as each that allocates
    is. What others free is told when its place is given out again.
    """
    import threading  # programs without CuPy need not have it

    here = threading.local()
    tell.argtypes, tell.restype = [ctypes.c_uint64, ctypes.c_int64], None
    sizes = {}  # type: dict[int, int]

    def end(start: int) -> None:
        size = sizes.pop(start, 0)
        if size:
            tell(start, -size)

    class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc]
        name = "ulms"

        def free_preprocess(self, **about: Any) -> None:
            end(about["mem_ptr"])

    def listen() -> None:
        if not hasattr(here, "hooked"):
            here.hooked = True
            hook.__enter__()

    class Pool(cupy.cuda.MemoryPool):  # type: ignore[misc]
        def malloc(self, size: int) -> Any:
            memory = super().malloc(size)
            listen()
            start, size = memory.ptr, memory.mem.size
            if size:
                end(start)
                sizes[start] = size
                tell(start, size)
            return memory

    hook = Hook()
    return Pool(), listen


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
