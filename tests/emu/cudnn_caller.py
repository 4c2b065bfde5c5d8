"""Calls cuDNN's functions at random under ulms.so, and prints what the calls should touch.

    cudnn_caller.py LIBRARY SEED ROUNDS SYMBOL...

Prints one line of JSON a call: the symbol, and [first byte, bytes, mode] of all it touches.
"""

import ctypes
import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import shipped  # noqa: E402
from tests.emu import cudnn_newer_model as newer  # noqa: E402
from tests.emu.cudnn_model import (  # noqa: E402
    DESCRIPTOR,
    DOUBLE,
    SCALAR,
    Call,
    Filter,
    Sequences,
    Steps,
    Tensor,
    expected,
)

SLOT = 1 << 20
SLOTS = 48


class Graph(ctypes.Structure):
    """cudnnGnnCscGraph_t."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("offsets", "indices", "map", "reversed")),
        *((name, ctypes.c_int64) for name in ("nSrcNodes", "nDstNodes", "nIndices")),
        ("idxType", ctypes.c_int),
        ("reversed_offsets", ctypes.c_void_p),
    )


class Params(ctypes.Structure):
    """cudnnGnnMhaParams_t."""

    _fields_ = (
        ("activation", ctypes.c_int),
        ("alpha", ctypes.c_float),
        ("numHeads", ctypes.c_int),
        ("concatHeads", ctypes.c_int),
    )


def check(status: int) -> None:
    """Raises RuntimeError for an error."""
    if status:
        raise RuntimeError(f"status {status}")


def ints(values: Any) -> Any:
    """A C array of int."""
    return (ctypes.c_int * len(values))(*values)


class Caller:
    """The driver, the library, and device memory."""

    def __init__(self, library: str, seed: int) -> None:
        self.random = Random(seed)
        self.cuda = ctypes.CDLL("libcuda.so.1")
        check(self.cuda.cuInit(0))
        context = ctypes.c_void_p()
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(self.cuda.cuCtxSetCurrent(context))
        self.base = -(-self.allocate(SLOT * (SLOTS + 1)) // SLOT) * SLOT
        self.hidden = os.environ.get("EMU_LIBRARY") == "hidden"
        self.dnn = ctypes.CDLL(library)
        self.handle = ctypes.c_void_p()
        check(self.dnn.cudnnCreate(ctypes.byref(self.handle)))
        self.kept: list[Any] = []

    def allocate(self, size: int) -> int:
        """Device memory of its own."""
        address = ctypes.c_uint64()
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        return address.value

    def descriptor(self, kind: str, value: Any) -> ctypes.c_void_p:
        """A descriptor of the library's that says what `value` does."""
        made, dnn = ctypes.c_void_p(), self.dnn
        check(getattr(dnn, f"cudnnCreate{kind}Descriptor")(ctypes.byref(made)))
        if isinstance(value, Tensor) and value.format is not None:
            rank = len(value.sizes)
            check(
                dnn.cudnnSetTensorNdDescriptorEx(
                    made, value.format, value.type, rank, ints(value.sizes)
                )
            )
        elif isinstance(value, Tensor):
            sizes, strides = ints(value.sizes), ints(value.strides)
            check(
                dnn.cudnnSetTensorNdDescriptor(made, value.type, len(value.sizes), sizes, strides)
            )
        elif isinstance(value, Filter):
            sizes = ints(value.sizes)
            check(
                dnn.cudnnSetFilterNdDescriptor(
                    made, value.type, value.format, len(value.sizes), sizes
                )
            )
        elif isinstance(value, Steps):
            numbers = value.type, value.layout, value.longest, len(value.lengths), value.width
            check(dnn.cudnnSetRNNDataDescriptor(made, *numbers, ints(value.lengths), None))
        elif isinstance(value, Sequences):
            count = ctypes.c_size_t(len(value.lengths))
            sizes, axes = ints(value.sizes), ints(self.random.sample(range(4), 4))
            check(
                dnn.cudnnSetSeqDataDescriptor(
                    made, value.type, 4, sizes, axes, count, ints(value.lengths), None
                )
            )
        else:
            check(
                dnn.cudnnSetConvolutionNdDescriptor(
                    made, 2, ints([1, 1]), ints([2, 2]), ints([1, 1]), 1, 0
                )
            )
        return made

    def loss(self, longest: int) -> ctypes.c_void_p:
        """A descriptor of a loss over labels; 0 for one that does not say how long they are."""
        made = ctypes.c_void_p()
        check(self.dnn.cudnnCreateCTCLossDescriptor(ctypes.byref(made)))
        if longest:
            check(self.dnn.cudnnSetCTCLossDescriptor_v8(made, 0, 0, 0, longest))
        return made

    def fill(self, call: Call) -> None:
        """Numbers and shapes at random, alike enough for one call."""
        random = self.random
        if newer.is_newer(call.symbol):
            newer.random_numbers(random, call)
            return
        double = random.random() < 0.3
        length = random.randint(1, 4)
        sampler = "Sampler" in call.symbol or call.symbol == "cudnnIm2Col"
        rank = 4 if sampler else 3 if "CTC" in call.symbol else None
        for name, kind in call.types.items():
            if SCALAR.match(name):
                call.values[name] = random.choice([0.0, -0.0, 1.0, 0.5])
            elif kind == "const cudnnTensorDescriptor_t *":
                call.values[name] = [Tensor.random(random, 3, 0) for _ in range(length)]
            elif found := DESCRIPTOR.search(kind):
                call.values[name] = self.shape(found[1], rank, DOUBLE if double else None)
            elif kind == "cudnnCTCLossDescriptor_t":
                call.values[name] = random.choice([0, random.randint(1, 700)])
            elif kind == "size_t":
                call.values[name] = random.choice([0, random.randint(1, 5000)])
            elif kind in ("const int", "int") and name == "seqLength":
                call.values[name] = length
            elif kind.endswith("Ops_t"):
                call.values[name] = random.randrange(3)
            elif kind in ("cudnnForwardMode_t", "cudnnWgradMode_t") or name == "reorderBias":
                call.values[name] = random.randrange(2)

    def shape(self, kind: str, rank: int | None, element: int | None) -> Any:
        """Something that a descriptor of this kind may say; None for no descriptor."""
        if kind == "Tensor":
            tensor = Tensor.random(self.random, rank, element)
            while element is None and (tensor.type == DOUBLE or (rank and tensor.format)):
                tensor = Tensor.random(self.random, rank, element)
            return None if rank is None and self.random.random() < 0.03 else tensor
        if kind == "Filter":
            made = Filter.random(self.random, 4, element)
            while element is None and made.type == DOUBLE:
                made = Filter.random(self.random, 4, element)
            return made
        return Steps.random(self.random) if kind == "RNNData" else Sequences.random(self.random)

    def address(self, slot: int) -> int:
        """Somewhere in the middle of a slot; now and then nowhere."""
        if self.random.random() < 0.08:
            return 0
        return self.base + slot * SLOT + SLOT // 2 + 16 * self.random.randrange(256)

    def argument(self, call: Call, name: str, kind: str, addresses: dict[str, int]) -> Any:
        """What to give C."""
        value: Any = call.values.get(name)
        if kind == "cudnnHandle_t":
            return self.handle
        if name in addresses:
            return ctypes.c_void_p(addresses[name])
        if isinstance(value, list):
            items = [self.descriptor("Tensor", one) for one in value]
            return (ctypes.c_void_p * len(items))(*[item.value for item in items])
        if found := DESCRIPTOR.search(kind):
            return self.descriptor(found[1], value) if value is not None else None
        if "CTCLossDescriptor" in kind:
            return self.loss(value)
        if "ConvolutionDescriptor" in kind:
            return self.descriptor("Convolution", None)
        if SCALAR.match(name):
            return self.scalar(call, value)
        if name in ("graph", "params"):
            structure = (Graph if name == "graph" else Params)(**value)
            self.kept.append(structure)
            return ctypes.byref(structure)
        if kind == "size_t":
            return ctypes.c_size_t(value)
        if kind in ("double", "float", "const float"):
            return (ctypes.c_double if kind == "double" else ctypes.c_float)(0.5)
        if kind == "unsigned long long":
            return ctypes.c_ulonglong(7)
        return ctypes.c_int(value or 0) if "*" not in kind else None

    def scalar(self, call: Call, value: float) -> Any:
        """In the type of the call's tensors; behind a float stands what no one may read."""
        shapes = [v for v in call.values.values() if isinstance(v, Tensor | Filter)]
        if any(shape.type == DOUBLE for shape in shapes):
            number: Any = ctypes.c_double(value)
        else:
            number = (ctypes.c_float * 2)(value, -1.0)
        self.kept.append(number)
        return ctypes.byref(number)

    def call(self, call: Call) -> list[list[int]]:
        """One call; what it should touch."""
        self.fill(call)
        addresses, sizes = {}, {}
        for slot, name in enumerate(call.pointers()):
            addresses[name] = self.address(slot)
        if newer.is_newer(call.symbol):
            touched: dict[int, Any] = dict(newer.expected(call, addresses))
        else:
            for name in ("theta", "grid", "dgrid", "dtheta", "labels"):
                if name in addresses and ("GridGenerator" in call.symbol or name == "labels"):
                    sizes[name] = 512 * self.random.randint(1, 9)
                    addresses[name] = self.allocate(sizes[name])
            touched = dict(expected(call, addresses))
        for name, size in sizes.items():
            told = touched[addresses[name]]
            touched[addresses[name]] = (
                (min(size, told[0]), told[1]) if isinstance(told, tuple) else (size, told)
            )
        if not self.hidden:  # the kernel shows it, so the driver's view has its block
            bases = {start & -SLOT for start in touched}
            addresses = {n: a if a & -SLOT in bases else 0 for n, a in addresses.items()}
        arguments = [self.argument(call, *item, addresses) for item in call.types.items()]
        check(getattr(self.dnn, call.symbol)(*arguments))
        self.kept.clear()
        return sorted([start, *rest] for start, rest in touched.items())


def main(library: str, seed: str, rounds: str, *symbols: str) -> None:
    """Calls each function so many times."""
    prototypes = {row.symbol: row.prototype for row in shipped().rows}
    caller = Caller(library, int(seed))
    for _ in range(int(rounds)):
        for symbol in symbols:
            prototype = prototypes[symbol]
            assert prototype
            call = Call(symbol, {a.name: a.type for a in prototype.arguments})
            print(json.dumps([symbol, caller.call(call)]))
    check(caller.cuda.cuCtxSynchronize())


main(*sys.argv[1:])
