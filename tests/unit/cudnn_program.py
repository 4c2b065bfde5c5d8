"""A program that builds operation graphs with cuDNN's backend interface."""

import ctypes
import functools
import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hooks.generator.operations import read_operations
from tests.conftest import BUILD

ROOT = Path(__file__).parents[2]
SOURCES = [f"library/cudnn_{name}.c" for name in ("descriptor", "role", "shape", "use")]
EXACT, WITHIN, BLOCK = range(3)
READ, WRITE, UPDATE, SCRATCH = range(1, 5)


def constants() -> dict[str, int]:
    """Every constant of cuDNN that is known here."""
    headers = (ROOT / "hooks/cudnn/abi").glob("*.h")
    found = (re.findall(r"\b(CUDNN_\w+) = (-?\d+),", h.read_text("utf-8")) for h in headers)
    declared = {name: int(value) for name, value in itertools.chain(*found)}
    return declared | read_operations(ROOT / "hooks").constants


VALUES = constants()


class Span(ctypes.Structure):
    """struct span."""

    _fields_ = (("low", ctypes.c_int64), ("high", ctypes.c_int64), ("holes", ctypes.c_bool))


class Place(ctypes.Structure):
    """struct place."""

    _fields_ = (
        ("start", ctypes.c_uint64),
        ("span", Span),
        ("reach", ctypes.c_int),
        ("mode", ctypes.c_int),
    )


TELL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Place))


@dataclass(frozen=True)
class Told:
    """What is told of one address, in bytes from it."""

    low: int
    high: int
    holes: bool
    reach: int
    mode: int


@functools.cache
def library() -> ctypes.CDLL:
    """The descriptors by themselves, without anything that calls a library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler builds everything here"
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC"]
    flags += [f"-I{folder}" for folder in (ROOT / "csrc", ROOT / "hooks", BUILD / "gen")]
    sources = [str(ROOT / "csrc" / source) for source in SOURCES]
    core = BUILD / "libcore_static.a"
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/descriptor.so"
        subprocess.run([compiler, *flags, "-o", target, *sources, str(core)], check=True)
        found = ctypes.CDLL(target)
    for name in ("made", "emptied", "gone", "set", "shared", "planned", "places"):
        getattr(found, f"descriptor_{name}").restype = None
    found.descriptor_is_plan.restype = ctypes.c_bool
    return found


HANDLES = itertools.count(0x1000, 0x40)


@dataclass
class Program:
    """A program that uses cuDNN's backend interface; the library accepts whatever it says."""

    handles: list[int] = field(default_factory=list)

    def make(self, kind: str) -> int:
        """cudnnBackendCreateDescriptor."""
        handle = next(HANDLES)
        library().descriptor_made(
            ctypes.c_void_p(handle), VALUES[f"CUDNN_BACKEND_{kind}_DESCRIPTOR"]
        )
        self.handles.append(handle)
        return handle

    def set(self, handle: int, attribute: str | int, kind: str, values: Sequence[float]) -> None:
        """cudnnBackendSetAttribute."""
        types: Mapping[str, Callable[..., object]] = {
            "BACKEND_DESCRIPTOR": ctypes.c_void_p,
            "VOID_PTR": ctypes.c_void_p,
            "INT64": ctypes.c_int64,
            "BOOLEAN": ctypes.c_bool,
            "FLOAT": ctypes.c_float,
            "DOUBLE": ctypes.c_double,
            "DATA_TYPE": ctypes.c_int,
            "NORM_FWD_PHASE": ctypes.c_int,
        }
        name = attribute if isinstance(attribute, int) else VALUES[f"CUDNN_ATTR_{attribute}"]
        array = (types[kind] * len(values))(*values)  # type: ignore[operator]
        library().descriptor_set(
            ctypes.c_void_p(handle),
            name,
            VALUES[f"CUDNN_TYPE_{kind}"],
            ctypes.c_int64(len(values)),
            array,
        )

    def share(self, handle: int, parts: Sequence[int]) -> None:
        """cudnnBackendGetAttribute of descriptors."""
        array = (ctypes.c_void_p * len(parts))(*parts)
        n = ctypes.c_int64(len(parts))
        library().descriptor_shared(ctypes.c_void_p(handle), n, array)

    def destroy(self, *handles: int) -> None:
        """cudnnBackendDestroyDescriptor."""
        for handle in handles:
            library().descriptor_gone(ctypes.c_void_p(handle))

    def tensor(
        self,
        uid: int,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        element: str = "HALF",
        *,
        virtual: bool = False,
        by_value: bool = False,
        vector: int = 1,
        ragged: int | None = None,
    ) -> int:
        """A tensor, row by row unless `strides` says otherwise."""
        if strides is None:
            strides = [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
        tensor = self.make("TENSOR")
        self.set(tensor, "TENSOR_DATA_TYPE", "DATA_TYPE", [VALUES[f"CUDNN_DATA_{element}"]])
        self.set(tensor, "TENSOR_DIMENSIONS", "INT64", sizes)
        self.set(tensor, "TENSOR_STRIDES", "INT64", strides)
        self.set(tensor, "TENSOR_UNIQUE_ID", "INT64", [uid])
        self.set(tensor, "TENSOR_BYTE_ALIGNMENT", "INT64", [16])
        if virtual:
            self.set(tensor, "TENSOR_IS_VIRTUAL", "BOOLEAN", [True])
        if by_value:
            self.set(tensor, "TENSOR_IS_BY_VALUE", "BOOLEAN", [True])
        if vector > 1:
            self.set(tensor, "TENSOR_VECTOR_COUNT", "INT64", [vector])
            self.set(tensor, "TENSOR_VECTORIZED_DIMENSION", "INT64", [1])
        if ragged is not None:
            self.set(tensor, "TENSOR_RAGGED_OFFSET_DESC", "BACKEND_DESCRIPTOR", [ragged])
        return tensor

    def operation(self, kind: str, prefix: str, **tensors: int) -> int:
        """An operation, with the tensors of its attributes."""
        operation = self.make(f"OPERATION_{kind}")
        for name, tensor in tensors.items():
            self.set(operation, f"OPERATION_{prefix}_{name}", "BACKEND_DESCRIPTOR", [tensor])
        return operation

    def plan(self, operations: Sequence[int], workspace: int = 0, *, found: bool = False) -> int:
        """A plan of a graph, by the engine's number or as a search for engines found it."""
        graph = self.make("OPERATIONGRAPH")
        self.set(graph, 801, "BACKEND_DESCRIPTOR", operations)  # CUDNN_ATTR_OPERATIONGRAPH_OPS
        config = self.make("ENGINECFG")
        if found:
            heuristic = self.make("ENGINEHEUR")
            self.set(heuristic, 201, "BACKEND_DESCRIPTOR", [graph])
            self.share(heuristic, [config])
            self.destroy(heuristic)
        else:
            engine = self.make("ENGINE")
            self.set(engine, 1300, "BACKEND_DESCRIPTOR", [graph])
            self.set(config, VALUES["CUDNN_ATTR_ENGINECFG_ENGINE"], "BACKEND_DESCRIPTOR", [engine])
        plan = self.make("EXECUTION_PLAN")
        self.set(plan, 401, "BACKEND_DESCRIPTOR", [config])
        assert library().descriptor_is_plan(ctypes.c_void_p(plan))
        library().descriptor_planned(ctypes.c_void_p(plan), ctypes.c_int64(workspace))
        self.destroy(*(handle for handle in self.handles if handle != plan))
        return plan

    def execute(
        self,
        plan: int,
        addresses: Mapping[int, int],
        workspace: int = 0,
        reshaped: Sequence[int] = (),
    ) -> dict[int, list[Told]]:
        """What is told of each address when the plan runs with tensors at these addresses."""
        pack = self.make("VARIANT_PACK")
        self.set(pack, "VARIANT_PACK_UNIQUE_IDS", "INT64", list(addresses))
        self.set(pack, "VARIANT_PACK_DATA_POINTERS", "VOID_PTR", list(addresses.values()))
        self.set(pack, "VARIANT_PACK_WORKSPACE", "VOID_PTR", [workspace])
        if reshaped:
            self.set(pack, "VARIANT_PACK_OVERRIDE_UNIQUE_IDS", "INT64", reshaped)
        found: dict[int, list[Told]] = {}

        def tell(_: int, place: "ctypes._Pointer[Place]") -> None:
            p = place.contents
            told = Told(p.span.low, p.span.high, p.span.holes, p.reach, p.mode)
            found.setdefault(p.start, []).append(told)

        library().descriptor_places(ctypes.c_void_p(plan), ctypes.c_void_p(pack), TELL(tell), None)
        self.destroy(pack)
        return found

    def modes(self, operations: Sequence[int], uids: Sequence[int]) -> dict[int, int]:
        """Modes by uid, of tensors that are told exactly."""
        told = self.execute(self.plan(operations), {uid: uid << 20 for uid in uids})
        assert all(len(places) == 1 and places[0].reach == EXACT for places in told.values())
        return {start >> 20: places[0].mode for start, places in told.items()}
