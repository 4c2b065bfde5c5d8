"""PUMP: run unmodified CUDA programs that need more GPU memory than there is.

For programs in Python: `open_trace`, `plan`, `compare`. The commands call the same functions. A
program that shares a GPU puts itself away by `suspend`, until `resume`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from pump.bench.compare import compare
    from pump.predict.plan import plan
    from pump.share.inside import resume, suspend
    from pump.trace import read as open_trace

__all__ = ["__version__", "compare", "open_trace", "plan", "resume", "suspend"]

_HOMES = {
    "compare": ("pump.bench.compare", "compare"),
    "open_trace": ("pump.trace", "read"),
    "plan": ("pump.predict.plan", "plan"),
    "resume": ("pump.share.inside", "resume"),
    "suspend": ("pump.share.inside", "suspend"),
}


if not TYPE_CHECKING:  # which knows the functions by their imports above

    def __getattr__(name: str) -> Any:
        """One of these functions, whose module, and numpy with it, is loaded when somebody asks; or
        the version, which is asked of the installed package.
        """
        if name == "__version__":
            return import_module("importlib.metadata").version("ulms")
        if name not in _HOMES:
            raise AttributeError(f"module 'pump' has no attribute '{name}'")
        module, function = _HOMES[name]
        return getattr(import_module(module), function)
