"""Random calls of cuBLAS's functions, and the touches that `blas_model` says they make."""

import random
import struct
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hooks.generator.prototype import Argument  # noqa: E402
from hooks.generator.row import Row  # noqa: E402
from tests.emu import blas_model as model  # noqa: E402
from tests.emu.blas_elements import NOTHING  # noqa: E402
from tests.emu.blas_types import element_bits  # noqa: E402
from tests.emu.library_run import Touch  # noqa: E402

SLOT = 1 << 20  # device memory of one argument; its address lies in the middle
SLOTS = 32
DIMENSIONS = ("m", "n", "k", "rows", "cols", "nrhs")
TYPES = [0, 1, 2, 3, 4, 5, 8, 14, 28, 33]
SCALAR_TYPES = [0, 1, 2, 4, 5, 14]
COMPUTE = [64, 65, 68, 69, 70, 71, 72, 74, 75, 77, 78, 79]
OPTIONAL = ("P", "devIpiv", "devInfoArray", "info")
HOST = {  # arguments in host memory
    "SetVector": "x",
    "SetVectorAsync": "hostPtr",
    "GetVector": "y",
    "GetVectorAsync": "hostPtr",
    "SetMatrix": "A",
    "SetMatrixAsync": "A",
    "GetMatrix": "B",
    "GetMatrixAsync": "B",
}
HOST_INFO = ("getrsBatched", "geqrfBatched", "gelsBatched")
SMALL = ("r", "p", "alpha", "cs", "ab", "d1", "d2", "x1", "y1")  # types of scalars and results


@dataclass
class Call:
    """One call as the caller wants it, and what it touches."""

    symbol: str
    device: bool  # scalars in device memory
    words: list[list[Any]] = field(default_factory=list)
    result: str = "int"
    touches: set[Touch] = field(default_factory=set)
    exact_when_seen: bool = True  # no argument points at memory of which nothing is touched

    def json(self, library: str) -> dict[str, Any]:
        """A line for the caller."""
        return {
            "library": library,
            "symbol": self.symbol,
            "result": self.result,
            "arguments": self.words,
        }


class Maker:
    """Makes random calls of one function."""

    def __init__(self, row: Row, chance: random.Random) -> None:
        assert row.prototype
        self.row = row
        self.prototype = row.prototype
        self.chance = chance

    def make(self) -> Call:
        """One call."""
        names = [argument.name for argument in self.prototype.arguments]
        device = "handle" in names and self.chance.random() < 0.4
        if "group_count" in names:
            device = False
        call = Call(self.row.symbol, device, result=self._result())
        values = self._values()
        operands = model.operands(call.symbol, values)
        places = self._places(values, operands)
        for argument in self.prototype.arguments:
            call.words.append(self._word(argument, values, places, device))
        self._expect(call, values, operands, places)
        return call

    def _result(self) -> str:
        result = self.prototype.result
        return {"cublasStatus_t": "int", "void": "void"}.get(result, result)

    # --- values ---

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for argument in self.prototype.arguments:
            values[argument.name] = self._value(argument, values)
        return values

    def _value(self, argument: Argument, known: dict[str, Any]) -> Any:
        name, kind = argument.name, argument.type
        chance = self.chance
        groups = known.get("groups") or chance.randint(1, 3)
        if name.endswith("_array") and not kind.endswith("**"):
            count = known.setdefault("groups", groups)
            return [self._number(name.removesuffix("_array"), known) for _ in range(count)]
        if name == "group_size":
            return [chance.randint(1, 3) for _ in range(known["groups"])]
        if name == "group_count":
            return known["groups"]
        if argument.is_pointer:
            return self._pointer(argument, known)
        if kind == "char":
            return chance.choice({"s": "LRlr", "u": "LUlu", "d": "NUnu"}.get(name[0], "NTCntc"))
        if kind in ("cudaDataType", "cudaDataType_t"):
            return chance.choice(SCALAR_TYPES if name.startswith(SMALL) else TYPES)
        if kind == "cublasComputeType_t":
            return chance.choice(COMPUTE)
        if kind in ("float", "double"):
            return chance.choice([0.0, -0.0, 1.5])
        if kind in ("cuComplex", "cuDoubleComplex"):
            return chance.choice([[0.0, 0.0], [-0.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
        return self._number(name, known)

    def _number(self, name: str, known: dict[str, Any]) -> Any:
        chance = self.chance
        if name in DIMENSIONS or name in ("batchCount", "batchSize"):
            return chance.choice([0, 1, *[chance.randint(1, 6 if "batch" in name else 24)] * 8])
        if name in ("kl", "ku"):
            return chance.randint(0, 6)
        if name == "elemSize":
            return chance.choice([1, 2, 4, 8, 16])
        if name.startswith("ld"):
            largest = max(
                [known[key] for key in DIMENSIONS if isinstance(known.get(key), int)] + [1]
            )
            return chance.choice([largest, chance.randint(24, 40)])
        if name.startswith("inc"):
            return chance.choice([1, 1, 2, 3, -1, -2])
        if name.startswith("stride"):
            return chance.choice([0, 1, 7, 100, 24 * 24, 2000, -576, -1500])
        if name.startswith("trans"):
            return chance.choice([0, 1, 2])
        if name in ("uplo", "diag", "side", "mode"):
            return chance.choice([0, 1])
        if name in ("alpha", "beta"):
            return chance.choice([0.0, -0.0, 1.5])
        return 0

    def _pointer(self, argument: Argument, known: dict[str, Any]) -> Any:
        scalars = model.scalars(self.row.symbol)
        if argument.name in scalars:
            return self.chance.choice([0.0, 0.0, -0.0, 1.5])
        return None

    # --- places ---

    def _places(self, values: dict[str, Any], operands: list[model.Operand]) -> dict[str, Any]:
        """Offsets in the allocation by argument; for arrays of addresses, that and theirs."""
        places: dict[str, Any] = {}
        slots = iter(range(1, SLOTS))
        for argument in self.prototype.arguments:
            if not argument.is_pointer:
                continue
            name = argument.name
            at = next(slots) * SLOT + SLOT // 2 + 16 * self.chance.randint(0, 99)
            if argument.type.count("*") == 2:
                mine = [o for o in operands if o.name == name]
                total = sum(o.array or 0 for o in mine)
                bits = element_bits(argument.type, name, values)
                apart = self._apart(mine, bits)
                base = next(slots) * SLOT + 4096
                places[name] = (at, [base + i * apart for i in range(total)])
            elif name not in OPTIONAL or self.chance.random() < 0.9:
                places[name] = at
        return places

    def _apart(self, mine: list[model.Operand], bits: int) -> int:
        """Matrices side by side, or with space between."""
        sizes = [int(o.offsets.max() + 1) * bits for o in mine if o.offsets.size]
        close = len(mine) == 1 and sizes and sizes[0] % 8 == 0 and self.chance.random() < 0.4
        return sizes[0] // 8 if close else 40000

    # --- words for the caller ---

    def _word(
        self, argument: Argument, values: dict[str, Any], places: dict[str, Any], device: bool
    ) -> list[Any]:
        name, kind = argument.name, argument.type
        value = values[name]
        if kind == "cublasHandle_t":
            return ["pointer", {"handle": "device" if device else "host"}]
        if isinstance(value, list) and argument.is_pointer:
            return ["pointer", {"host": self._list(argument, value, values).hex()}]
        if argument.is_pointer:
            return ["pointer", self._address(argument, value, values, places, device)]
        if kind == "cudaStream_t":
            return ["pointer", None]
        known = ("char", "float", "double", "cuComplex", "cuDoubleComplex", "int64_t", "size_t")
        if kind == "long long int":
            return ["int64_t", value]
        return [kind if kind in known else "int", value]

    def _list(self, argument: Argument, value: list[Any], values: dict[str, Any]) -> bytes:
        if argument.name in ("alpha_array", "beta_array"):
            return b"".join(self._scalar(argument, one, 1, values) for one in value)
        code = "q" if "int64_t" in argument.type else "i"
        return struct.pack(f"{len(value)}{code}", *value)

    def _scalar(
        self, argument: Argument, value: float, count: int, values: dict[str, Any]
    ) -> bytes:
        bits = element_bits(argument.type, argument.name, values)
        # a sign bit alone, or some other bit in every part: what the number is does not matter
        if value:
            return b"\x01\x3c" * (bits // 16 * count)
        integer = bits == 32 and values.get("computeType") in (72, 73)
        sign = b"" if (value == 0 and str(value) == "0.0") or integer else b"\x80"
        return (b"\0" * (bits // 8 - len(sign)) + sign) * count

    def _address(
        self,
        argument: Argument,
        value: Any,
        values: dict[str, Any],
        places: dict[str, Any],
        device: bool,
    ) -> Any:
        name = argument.name
        scalars = model.scalars(self.row.symbol)
        legacy = "handle" not in values
        if name in scalars and not device and value is not None:
            _, count = scalars[name]
            return {"host": self._scalar(argument, value, count, values).hex()}
        if name == HOST.get(model.stem(self.row.symbol)) or (legacy and name == "sparam"):
            return {"host": "00" * 64}
        if name == "info" and model.stem(self.row.symbol)[1:] in HOST_INFO:
            return {"host": "00" * 4}
        place = places.get(name)
        if isinstance(place, tuple):
            return {"array": place[0], "of": place[1]}
        return None if place is None else {"device": place}

    # --- what is expected ---

    def _expect(
        self,
        call: Call,
        values: dict[str, Any],
        operands: list[model.Operand],
        places: dict[str, Any],
    ) -> None:
        arrays: dict[str, int] = {}
        types = {argument.name: argument.type for argument in self.prototype.arguments}
        for operand in operands:
            bits = element_bits(types[operand.name], operand.name, values)
            place = places.get(operand.name)
            starts = [] if place is None else [place]
            if operand.array is not None:
                assert place is not None
                arrays[operand.name] = arrays.get(operand.name, 0) + max(operand.array, 0)
                starts = place[1][operand.first : operand.first + max(operand.array, 0)]
            if operand.factor and not call.device and values[operand.factor] == 0:
                operand = replace(operand, offsets=NOTHING)
            if operand.offsets.size == 0 and place is not None:
                call.exact_when_seen = False
            for start in starts:
                self._add(call, operand, start, bits, self._mode(operand, values, call.device))
        for name, count in arrays.items():
            if count:
                call.touches.add((places[name][0], places[name][0] + 8 * count, "read"))
            else:
                call.exact_when_seen = False
        if call.device:
            for name, (mode, count) in model.scalars(call.symbol).items():
                if name in types:
                    bits = element_bits(types[name], name, values)
                    start = places[name]
                    call.touches.add((start, start + bits // 8 * count, mode))

    def _add(self, call: Call, operand: model.Operand, start: int, bits: int, mode: str) -> None:
        if operand.offsets.size == 0:
            return
        first, last = int(operand.offsets.min()), int(operand.offsets.max())
        if mode == "write" and not operand.dense:
            mode = "update"  # what lies between keeps its content
        call.touches.add((start + first * bits // 8, start - (-(last + 1) * bits // 8), mode))

    def _mode(self, operand: model.Operand, values: dict[str, Any], device: bool) -> str:
        if operand.mode != "beta":
            return operand.mode
        beta = values[operand.scalar]
        if operand.scalar == "beta_array":
            beta = beta[operand.place]
        parts = beta if isinstance(beta, list) else [beta]
        return "update" if device or any(parts) else "write"
