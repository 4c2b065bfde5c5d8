"""Programs to compare systems on, one file each. Weights are random, data is made up: nothing is
downloaded. `python -m bench.gpu.workloads NAME WARM TIMED` runs one.

A file's first line says what it is; its `make(device, tiny)` gives the work. This package does not
import them: listing needs no framework.
"""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
HELPERS = {"__init__", "__main__", "work", "by_torch", "by_jax", "by_cupy"}
HELPERS |= {"cached", "llama", "offload", "sizes", "weights"}
FRAMEWORKS = {"cupy-mix": "cupy", "hash-join": "cupy", "jax-conv": "jax", "jax-transformer": "jax"}
"""Of workloads that are not PyTorch's."""

VARIANTS = ("plain", "save-on-cpu", "checkpointing", "offload")
DECODERS = {"decode-3b", "decode-8b", "prefill-3b", "prefill-8b"}
REPLAYED = {"graph-decode", "graph-prefill"}
SOME = dict.fromkeys(DECODERS, ("plain", "offload")) | {
    **dict.fromkeys((*FRAMEWORKS, *REPLAYED, "compiled-mlp", "lora", "triton-mlp"), VARIANTS[:1]),
    "lstm": VARIANTS[:2],
    "resnet50": VARIANTS[:3],
}
"""Workloads that not everything can be done to: without gradients, blocks or AdamW of ours."""

ONCE = {*DECODERS, *REPLAYED, "hash-join"}
"""Workloads that touch memory once a step: the engine tries for ten steps what is faster then."""


def variants(name: str) -> tuple[str, ...]:
    """What can be done to a workload."""
    return SOME.get(name, VARIANTS)


def framework_of(name: str) -> str:
    """Whose a workload is: the module that it needs first."""
    return FRAMEWORKS.get(name, "torch")


def names() -> dict[str, str]:
    """Every workload, and what it is."""
    files = sorted(path for path in HERE.glob("*.py") if path.stem not in HELPERS)
    return {path.stem.replace("_", "-"): _first_line(path) for path in files}


def module_of(name: str) -> ModuleType:
    """A workload's file. Raises ImportError without its framework."""
    return import_module(f"{__name__}.{name.replace('-', '_')}")


def _first_line(path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return told.splitlines()[0]
