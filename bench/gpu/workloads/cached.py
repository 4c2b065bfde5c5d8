"""A decoder with a static cache, bf16, whose runs are replayed as a CUDA graph."""

from collections.abc import Callable

import torch
from torch.nn import functional

from bench.gpu.workloads.sizes import Cached
from bench.gpu.workloads.work import Work

SPREAD = 0.02


class Layer:
    """Weights of one, and its part of the cache."""

    def __init__(self, device: str, size: Cached) -> None:
        width, inner = size.width, size.inner
        self.look = random(device, width, 3 * width)
        self.seen = random(device, width, width)
        self.widen = random(device, width, 2 * inner)
        self.narrow = random(device, inner, width)
        shape = (size.batch, size.heads, size.length, width // size.heads)
        self.keys = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self.values = torch.zeros_like(self.keys)


class Decoder:
    """What is in it has its address for good; `scores` are of the last word."""

    def __init__(self, device: str, size: Cached) -> None:
        self.size = size
        self.words = random(device, size.words, size.width)
        self.layers = [Layer(device, size) for _ in range(size.layers)]
        self.head = random(device, size.width, size.words)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.places = torch.arange(size.length, device=device)
        self.scores = random(device, size.batch, size.words)
        self.last = torch.zeros(size.batch, 1, dtype=torch.long, device=device)
        half = size.width // size.heads // 2
        turns = 10000.0 ** (-torch.arange(half, device=device) / half)
        angles = self.places[:, None] * turns
        self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()

    def run(self, words: torch.Tensor) -> None:
        """The next words, and the greedy choice behind them."""
        count = words.shape[1]
        places = (self.place + self.places[:count]) % self.size.length
        x = self.words[words]
        for layer in self.layers:
            x = x + self.attention(normed(x), layer, places)
            gate, up = (normed(x) @ layer.widen).chunk(2, -1)
            x = x + (functional.silu(gate) * up) @ layer.narrow
        self.scores.copy_(normed(x[:, -1]) @ self.head)
        self.last.copy_(self.scores.argmax(-1, keepdim=True))
        self.place.copy_((self.place + count) % self.size.length)

    def attention(self, x: torch.Tensor, layer: Layer, places: torch.Tensor) -> torch.Tensor:
        """Of many words, which begin: to each other. Of one: to the whole cache up to it."""
        batch, count, width = x.shape
        parts = (x @ layer.look).view(batch, count, 3, self.size.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        query, key = self.turned(query, places), self.turned(key, places)
        layer.keys.index_copy_(2, places, key)
        layer.values.index_copy_(2, places, value)
        if count > 1:
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ layer.keys.mT * query.shape[-1] ** -0.5
            scores = scores.float().masked_fill(self.places > places, float("-inf"))
            seen = scores.softmax(-1).bfloat16() @ layer.values
        return seen.transpose(1, 2).reshape(batch, count, width) @ layer.seen

    def turned(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """By the angles of their places."""
        cos, sin = self.cos[places], self.sin[places]
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def random(device: str, *shape: int) -> torch.Tensor:
    """Weights."""
    return torch.empty(shape, dtype=torch.bfloat16, device=device).normal_(std=SPREAD)


def normed(x: torch.Tensor) -> torch.Tensor:
    """Root mean square."""
    return functional.rms_norm(x, x.shape[-1:])


def decoder(device: str, size: Cached) -> tuple[Decoder, torch.Tensor]:
    """One that has read its prompt, and that."""
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(False)  # what writes the cache would sort its places
    made = Decoder(device, size)
    prompt = torch.randint(0, size.words, (size.batch, size.prompt), device=device)
    made.run(prompt)
    return made, prompt


def replayed(one: Decoder, run: Callable[[], None]) -> Work:
    """A step is `run`, as often as the size says: as a CUDA graph where there is a GPU."""
    numbers: list[torch.Tensor] = []
    now = run

    def begin() -> None:
        nonlocal now
        if torch.cuda.is_available():
            now = captured(run)

    def step() -> None:
        for _ in range(one.size.times):
            now()
        numbers.append(one.scores.float().abs().sum())

    return Work(step, numbers, begin=begin, uncaptured=step)


def captured(run: Callable[[], None]) -> Callable[[], None]:
    """What replays it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay(keeps: object = run) -> None:  # what the graph uses must stay
        graph.replay()

    return replay
