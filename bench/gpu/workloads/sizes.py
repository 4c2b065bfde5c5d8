"""How large programs are: each as it is measured, then tiny, to try it. `PAIR[tiny]` is one.

`least_bytes` is what a program needs at least, by what it must keep. Imports no framework.
"""

from typing import NamedTuple, Protocol

F32 = 4
HALF = 2
ADAM = 4 * F32
"""Bytes of a weight that AdamW trains: itself, its gradient, two moments."""


class Size(Protocol):
    """Of a program."""

    @property
    def least_bytes(self) -> int:
        """Of the device."""


class Images(NamedTuple):
    """A convolutional network: `layers` of each width, half as many places at each wider one."""

    batch: int
    side: int
    widths: tuple[int, ...]
    layers: int
    classes: int

    @property
    def least_bytes(self) -> int:
        """For each layer what the convolution and what its norm gave, f32."""
        places = [self.batch * (self.side >> i) ** 2 * w for i, w in enumerate(self.widths)]
        return 2 * self.layers * sum(places) * F32


class Text(NamedTuple):
    """A transformer that predicts words."""

    layers: int
    width: int
    heads: int
    words: int
    batch: int
    length: int

    @property
    def least_bytes(self) -> int:
        """Weights and what Adam keeps of them."""
        return (self.layers * 12 * self.width**2 + self.words * self.width) * ADAM


class Graph(NamedTuple):
    """A graph attention network; every node also looks at itself."""

    nodes: int
    edges: int
    features: int
    heads: int
    width: int
    layers: int
    classes: int

    @property
    def least_bytes(self) -> int:
        """For each layer what nodes send along edges; of one, also its products and gradients."""
        sent = (self.edges + self.nodes) * self.heads * self.width * F32
        return (self.layers + 2) * sent


class Experts(NamedTuple):
    """A transformer whose words choose `chosen` of the experts of each layer."""

    layers: int
    experts: int
    chosen: int
    width: int
    inner: int
    heads: int
    words: int
    batch: int
    length: int

    @property
    def least_bytes(self) -> int:
        """Weights and what Adam keeps of them."""
        layer = 2 * self.experts * self.width * self.inner + 4 * self.width**2
        return (self.layers * layer + 2 * self.words * self.width) * ADAM


class Cached(NamedTuple):
    """A decoder whose cache has its full length from the beginning; a step runs it `times`."""

    layers: int
    width: int
    inner: int
    heads: int
    words: int
    batch: int
    length: int
    prompt: int
    times: int

    @property
    def least_bytes(self) -> int:
        """Weights and cache, bf16."""
        weights = self.layers * (4 * self.width**2 + 3 * self.width * self.inner)
        cache = 2 * self.layers * self.batch * self.length * self.width
        return (weights + 2 * self.words * self.width + cache) * HALF


class Layers(NamedTuple):
    """Layers that widen and narrow again."""

    layers: int
    width: int
    inner: int
    rows: int

    @property
    def least_bytes(self) -> int:
        """Weights and what Adam keeps of them; what the layers widened to, bf16."""
        weights = 2 * self.width * self.inner * ADAM
        return self.layers * (weights + self.rows * self.inner * HALF)


class Products(NamedTuple):
    """A chain of products of square matrices, trained."""

    layers: int
    width: int
    rows: int

    @property
    def least_bytes(self) -> int:
        """Weights, bf16, and momentum, f32; what each product gave, bf16."""
        weights = self.width**2 * (HALF + F32)
        return self.layers * (weights + self.rows * self.width * HALF)


class Arrays(NamedTuple):
    """Arrays of numbers: sides of a signal, values to sort, keys, a sparse matrix, a grid."""

    sides: tuple[int, int]
    values: int
    keys: int
    rows: int
    entries: int  # of a row
    columns: int
    grid: int

    @property
    def least_bytes(self) -> int:
        """All of them, the signal and what it was transformed to, two grids."""
        signal = 3 * self.sides[0] * self.sides[1] * 2 * F32
        sparse = self.rows * (2 * self.entries + self.columns) * F32
        return signal + (self.values + self.keys) * F32 + sparse + 2 * self.grid**2 * F32


JAX_CONV = Images(192, 64, (64, 128, 256), 4, 1000), Images(4, 16, (4, 8), 1, 10)
JAX_TRANSFORMER = Text(10, 1024, 8, 16384, 4, 512), Text(2, 32, 2, 64, 2, 16)
GAT = Graph(80_000, 400_000, 512, 4, 96, 3, 40), Graph(80, 400, 16, 2, 8, 2, 4)
MOE = Experts(3, 8, 2, 1024, 4096, 16, 8192, 8, 512), Experts(2, 4, 2, 32, 64, 2, 64, 2, 16)
_DECODER = Cached(24, 2048, 5632, 16, 32000, 8, 1024, 512, 4)
_TINY = Cached(2, 64, 128, 4, 64, 2, 32, 8, 2)
GRAPH_DECODE = _DECODER, _TINY
GRAPH_PREFILL = (
    _DECODER._replace(batch=2, prompt=1024, times=1),
    _TINY._replace(prompt=32, times=1),
)
COMPILED_MLP = Layers(5, 2048, 8192, 4096), Layers(2, 16, 32, 8)
TRITON_MLP = Products(32, 4096, 4096), Products(2, 64, 64)
CUPY_MIX = (
    Arrays((4096, 8192), 1 << 26, 1 << 26, 1 << 21, 32, 8, 8192),
    Arrays((16, 32), 1 << 10, 1 << 10, 1 << 8, 4, 2, 32),
)
PAIRS: dict[str, tuple[Size, Size]] = {
    "gat": GAT,
    "moe": MOE,
    "triton-mlp": TRITON_MLP,
    "graph-decode": GRAPH_DECODE,
    "jax-conv": JAX_CONV,
    "cupy-mix": CUPY_MIX,
    "graph-prefill": GRAPH_PREFILL,
    "jax-transformer": JAX_TRANSFORMER,
    "compiled-mlp": COMPILED_MLP,
}
"""By workload, the one whose time is understood least first."""
