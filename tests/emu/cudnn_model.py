"""What cuDNN's legacy functions touch, by the vendor's conventions; independent of the hook tables.

A pointer's extent is that of the descriptor before it among the arguments, or the number of bytes
that an argument of its name gives; a pointer to const is read, another one written. The exceptions
are written out. Sizes are numpy's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

READ, WRITE, UPDATE, SCRATCH = 1, 2, 3, 4
FLOAT, DOUBLE, HALF, INT8, INT32, INT8X4, UINT8, UINT8X4, INT8X32, BFLOAT16 = range(10)
TYPES: dict[int, np.dtype[Any]] = {
    FLOAT: np.dtype(np.float32),
    DOUBLE: np.dtype(np.float64),
    HALF: np.dtype(np.float16),
    INT8: np.dtype(np.int8),
    INT32: np.dtype(np.int32),
    BFLOAT16: np.dtype(np.uint16),
}
NCHW, NHWC, NCHW_VECT_C = range(3)
UNPACKED, PACKED, BATCH_FIRST = range(3)


@dataclass(frozen=True)
class Extent:
    """Bytes [low, high) from a pointer. holes: not every byte belongs to what is described."""

    low: int
    high: int
    holes: bool = False


def some(n: int) -> Extent | None:
    """n bytes, all of them touched."""
    return Extent(0, n) if n > 0 else None


@dataclass(frozen=True)
class Tensor:
    """Elements at strides; `vector` elements lie together and have one stride."""

    type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    format: int | None = None

    @staticmethod
    def random(random: Random, rank: int | None = None, kind: int | None = None) -> "Tensor":
        """With gaps or without, dimensions in any order; now and then backwards, or of vectors."""
        rank = rank or random.choice([3, 4, 4, 4, 5])
        sizes = tuple(random.randint(1, 5) for _ in range(rank))
        if rank == 4 and kind is None and random.random() < 0.1:
            kind = random.choice([INT8X4, UINT8X4, INT8X32])
            channels = 32 * random.randint(1, 2)
            return Tensor(kind, (sizes[0], channels, *sizes[2:]), (), NCHW_VECT_C)
        strides = [0] * rank
        step = 1
        for i in random.sample(range(rank), rank):
            strides[i] = step + random.choice([0, 0, 0, 0, 1, 7])
            step = strides[i] * sizes[i]
        if random.random() < 0.1:
            strides[random.randrange(rank)] *= -1
        return Tensor(random.choice(sorted(TYPES)) if kind is None else kind, sizes, tuple(strides))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return TYPES[self.type].itemsize

    def extent(self) -> Extent | None:
        """From the first byte to the last."""
        if self.format == NCHW_VECT_C:  # one byte a channel; how vectors lie is not looked at
            return Extent(0, int(np.prod(self.sizes)), True)
        offsets = sum(np.indices(self.sizes)[i] * stride for i, stride in enumerate(self.strides))
        places = np.unique(np.asarray(offsets))
        steps = [stride * self.itemsize for stride in self.strides]
        start = np.zeros(1, TYPES[self.type])
        low, high = byte_bounds(np.lib.stride_tricks.as_strided(start, self.sizes, steps))
        whole = len(places) == np.prod(self.sizes) == places[-1] - places[0] + 1
        return Extent(low - start.ctypes.data, high - start.ctypes.data, not whole)


@dataclass(frozen=True)
class Filter:
    """Elements side by side."""

    type: int
    sizes: tuple[int, ...]
    format: int = NCHW

    @staticmethod
    def random(random: Random, rank: int = 4, kind: int | None = None) -> "Filter":
        """Of any type, now and then of vectors."""
        sizes = (random.randint(1, 6), random.randint(1, 4), *[random.randint(1, 3)] * (rank - 2))
        if kind is None and random.random() < 0.1:
            return Filter(INT8X32, (32, 32, *sizes[2:]), NCHW_VECT_C)
        kind = random.choice(sorted(TYPES)) if kind is None else kind
        return Filter(kind, sizes, random.choice([NCHW, NHWC]))

    def extent(self) -> Extent | None:
        """All elements; in a format of vectors, sizes count their elements."""
        size = 1 if self.format == NCHW_VECT_C else TYPES[self.type].itemsize
        return some(int(np.prod(self.sizes)) * size)


@dataclass(frozen=True)
class Steps:
    """Sequences of vectors for a recurrent network."""

    type: int
    layout: int
    longest: int
    width: int
    lengths: tuple[int, ...]

    @staticmethod
    def random(random: Random) -> "Steps":
        """Sequences of one length, or of several; now and then very many."""
        longest = random.randint(1, 6)
        batch = 700 if random.random() < 0.05 else random.randint(1, 5)
        lengths = [random.randint(1, longest) for _ in range(batch)]
        if random.random() < 0.5:
            lengths = [longest] * batch
        kind = random.choice([FLOAT, DOUBLE, HALF])
        layout = random.choice([UNPACKED, PACKED, BATCH_FIRST])
        return Steps(kind, layout, longest, random.randint(1, 9), tuple(lengths))

    def extent(self) -> Extent | None:
        """Unpacked, sequences are padded to one length."""
        vectors = sum(self.lengths)
        padded = self.longest * len(self.lengths)
        size = self.width * TYPES[self.type].itemsize
        if self.layout == PACKED:
            return some(vectors * size)
        return Extent(0, padded * size, vectors < padded)


@dataclass(frozen=True)
class Sequences:
    """Sequences for attention: times, batches, beams, vectors, in any order."""

    type: int
    sizes: tuple[int, ...]
    lengths: tuple[int, ...]

    @staticmethod
    def random(random: Random) -> "Sequences":
        """Of a few short ones."""
        sizes = tuple(random.randint(2, 5) for _ in range(4))
        count = sizes[1] * sizes[2]
        lengths = tuple(random.randint(1, sizes[0]) for _ in range(count))
        return Sequences(random.choice([FLOAT, DOUBLE, HALF]), sizes, lengths)

    def extent(self) -> Extent | None:
        """Padded to one length."""
        return Extent(0, int(np.prod(self.sizes)) * TYPES[self.type].itemsize, True)


Descriptor = Tensor | Filter | Steps | Sequences


@dataclass
class Call:
    """One call: its arguments in order, by name."""

    symbol: str
    types: dict[str, str]
    values: dict[str, Any] = field(default_factory=dict)
    """Numbers; descriptors and lists of them; for scalars, their value."""

    def pointers(self) -> list[str]:
        """The arguments that are addresses in device memory."""
        return [name for name, kind in self.types.items() if is_data(name, kind)]


SCALAR = re.compile(r"^(alpha|beta)\w*$")
DESCRIPTOR = re.compile(r"cudnn(Tensor|Filter|RNNData|SeqData)Descriptor_t\b")
# In host memory, or handed to nobody.
NOT_DATA = {
    "valuePtr",
    "hostLabels",
    "hostLabelLengths",
    "hostInputLengths",
    "loWinIdx",
    "hiWinIdx",
}
# Must be NULL, as the vendor has it.
RESERVED = {"keys", "cAttn", "iAttn", "queries", "dcAttn", "dkeys"}


def is_data(name: str, kind: str) -> bool:
    """True for an address in device memory."""
    element = kind.replace("const", "").strip()
    return element in ("void *", "int *", "int32_t *", "float *") and not (
        SCALAR.match(name) or name in NOT_DATA or name in ("returnedAlgoCount",)
    )


def size_argument(call: Call, name: str) -> str | None:
    """The argument that gives a buffer's bytes."""
    stem = name.lower().removeprefix("d").rstrip("s")
    for other, kind in call.types.items():
        if kind == "size_t" and re.match(f"{stem}s?size", other.lower()):
            return other
    return None


def described(call: Call, name: str) -> Extent | None:
    """By the nearest descriptor before the pointer."""
    names = list(call.types)
    for other in reversed(names[: names.index(name)]):
        if DESCRIPTOR.search(call.types[other]):
            value = call.values[other]
            if isinstance(value, list):
                parts = [part.extent() for part in value]
                total = sum(part.high - part.low for part in parts)
                return Extent(0, total, any(part.holes for part in parts)) if parts else None
            found: Extent | None = value.extent() if value else None
            return found
    raise AssertionError(f"{call.symbol}: nothing describes {name}")


def special(call: Call, name: str) -> Extent | str | None:
    """What the conventions do not cover. "none": they do; "block": its reach is unknown."""
    v = call.values
    if name.startswith("devSeqLengths") and "RNN" in call.symbol:
        return some(4 * len(v["xDesc"].lengths))
    if name.startswith("devSeqLengths"):
        of = {"QO": "qDesc", "KV": "kDesc", "DQDO": "dqDesc", "DKDV": "dkDesc"}
        return some(4 * len(v[of[name.removeprefix("devSeqLengths")]].lengths))
    if name == "costs":
        return some(v["probsDesc"].sizes[1] * v["probsDesc"].itemsize)
    if name in ("labelLengths", "inputLengths"):
        return some(v["probsDesc"].sizes[1] * 4)
    if name == "labels" and v["ctcLossDesc"]:
        return some(4 * v["probsDesc"].sizes[1] * v["ctcLossDesc"])  # no label is longer
    if name == "labels" or "GridGenerator" in call.symbol:
        return "block"
    if name in ("grid", "dgrid"):
        image = v.get("yDesc") or v["dyDesc"]
        return some(image.sizes[0] * image.sizes[2] * image.sizes[3] * 2 * image.itemsize)
    if name == "colBuffer":
        image, kernel = v["xDesc"], v["wDesc"]
        places = image.sizes[0]
        for i in range(2, len(image.sizes)):
            places *= 1 + (image.sizes[i] + 2 * 1 - kernel.sizes[i]) // 2  # padding 1, step 2
        return some(places * int(np.prod(kernel.sizes[1:])) * image.itemsize)
    if name in ("biasData", "reorderedBiasData"):
        return some(4 * v["filterDesc"].sizes[0])
    return "none"


FACTORS = {
    "cudnnConvolutionBiasActivationForward": {"z": "alpha2"},
    "cudnnOpTensor": {"A": "alpha1", "B": "alpha2"},
}


def untouched(call: Call, name: str) -> bool:
    """True for arguments that this call is told to leave alone."""
    if name in FACTORS.get(call.symbol, {}):
        return bool(call.values[FACTORS[call.symbol][name]] == 0)
    operations = call.values.get("bnOps", call.values.get("normOps", 0))
    fused = call.symbol.endswith("Ex") or call.symbol.startswith("cudnnNormalization")
    if fused and name in ("z", "zData", "dzData"):
        return bool(operations != 2)
    if fused and name in ("yData", "bnBiasData", "normBiasData") and "Backward" in call.symbol:
        return bool(operations == 0)
    if name in ("biasData", "reorderedBiasData"):
        return not call.values["reorderBias"]
    if call.symbol == "cudnnRNNForward" and name == "reserveSpace":
        return bool(call.values["fwdMode"] == 0)
    return name in RESERVED and call.symbol.startswith("cudnnRNN")


UPDATED = {
    "cudnnScaleTensor": {"y"},
    "cudnnRNNBackwardData": {"reserveSpace"},
    "cudnnRNNBackwardDataEx": {"reserveSpace"},
    "cudnnFindRNNBackwardDataAlgorithmEx": {"reserveSpace"},
    "cudnnRNNBackwardWeights": {"dw", "workSpace", "reserveSpace"},
    "cudnnFindRNNBackwardWeightsAlgorithmEx": {"dw", "workspace", "reserveSpace"},
    "cudnnRNNBackwardWeightsEx": {"dw", "workSpace", "reserveSpace"},
    "cudnnRNNBackwardData_v8": {"reserveSpace"},
    "cudnnRNNBackwardWeights_v8": {"workSpace", "reserveSpace"},
    "cudnnMultiHeadAttnBackwardData": {"reserveSpace"},
    "cudnnMultiHeadAttnBackwardWeights": {"reserveSpace"},
    "cudnnSpatialTfGridGeneratorForward": {"grid"},
    "cudnnSpatialTfGridGeneratorBackward": {"dtheta"},
}
STATISTICS = {"resultRunningMean", "resultRunningVariance"}
# The backward pass over the data leaves its workspace to the one over the weights.
KEPT_WORKSPACE = re.compile(r"RNNBackwardData")


def mode(call: Call, name: str) -> int:
    """How the pointer is used, were its extent without holes."""
    if name in UPDATED.get(call.symbol, ()) or name in STATISTICS:
        return UPDATE
    if "const" in call.types[name]:
        return READ
    if name.lower() == "workspace" or name in ("temp", "temp2"):
        return WRITE if KEPT_WORKSPACE.search(call.symbol) else SCRATCH
    if name == "reserveSpace" and "Backward" in call.symbol:
        return READ
    if name in ("dweights", "dweightSpace"):
        return UPDATE if call.values["addGrad"] == 0 else WRITE
    scalar = scalar_of(call, name)
    return UPDATE if scalar and call.values[scalar] != 0 else WRITE


def scalar_of(call: Call, name: str) -> str | None:
    """The factor of what an output held before."""
    names = [other for other in call.types if other.startswith("beta")]
    if not names or name in ("dMeans", "indices", "reserveSpace", "dzData"):
        return None
    if name.startswith("resultSave"):
        return None
    if "betaParamDiff" in names:
        return "betaDataDiff" if name in ("dx", "dxData") else "betaParamDiff"
    return "betaDgrid" if name == "dgrid" else names[0]


def expected(call: Call, addresses: Mapping[str, int]) -> dict[int, tuple[int, int] | int]:
    """By first byte: bytes and mode; only the mode where whole blocks are touched."""
    found: dict[int, tuple[int, int] | int] = {}
    for name in call.pointers():
        if untouched(call, name) or not addresses[name]:
            continue
        extent = special(call, name)
        if extent == "block":
            found[addresses[name]] = mode(call, name)
            continue
        if extent == "none":
            size = size_argument(call, name)
            extent = some(call.values[size]) if size else described(call, name)
        assert not isinstance(extent, str)
        if extent is None:
            continue
        how = mode(call, name)
        how = UPDATE if how in (WRITE, SCRATCH) and extent.holes else how
        found[addresses[name] + extent.low] = (extent.high - extent.low, how)
    return found
