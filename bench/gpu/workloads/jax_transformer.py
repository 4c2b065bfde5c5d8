"""A transformer in JAX (140 million parameters), training, 4 x 512 tokens, bf16, Adam."""

from typing import Any

import jax
import jax.numpy as jnp

from bench.gpu.workloads.sizes import JAX_TRANSFORMER, Text
from bench.gpu.workloads.work import Work

RATE, FIRST, SECOND, EPSILON = 1e-4, 0.9, 0.999, 1e-8


def make(device: str, tiny: bool) -> Work:
    """Weights and moments are f32, products bf16."""
    size = JAX_TRANSFORMER[tiny]
    keys = iter(jax.random.split(jax.random.key(0), 100))
    words = jax.random.randint(next(keys), (size.batch, size.length), 0, size.words)
    weights = weights_of(size, keys)
    state = {
        "weights": weights,
        "first": jax.tree.map(jnp.zeros_like, weights),
        "second": jax.tree.map(jnp.zeros_like, weights),
        "step": jnp.zeros(()),
    }
    update = jax.jit(lambda state, words: updated(state, words, size.heads), donate_argnums=0)
    numbers: list[float] = []

    def step() -> None:
        nonlocal state
        state, loss = update(state, words)
        numbers.append(float(loss))

    return Work(step, numbers)


def weights_of(size: Text, keys: Any) -> dict[str, Any]:
    """An embedding, which also gives the scores, and the layers."""

    def random(*shape: int) -> Any:
        return jax.random.normal(next(keys), shape) * shape[0] ** -0.5

    width = size.width
    layers = [
        {
            "look": random(width, 3 * width),
            "seen": random(width, width),
            "widen": random(width, 4 * width),
            "narrow": random(4 * width, width),
        }
        for _ in range(size.layers)
    ]
    return {"words": random(size.words, width), "layers": layers}


def normed(x: Any) -> Any:
    """Root mean square, f32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def attention(x: Any, layer: Any, heads: int) -> Any:
    """Every place looks at those before it."""
    batch, length, width = x.shape
    parts = (x @ layer["look"]).reshape(batch, length, 3, heads, width // heads)
    query, key, value = (parts[:, :, i] for i in range(3))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (width // heads) ** -0.5
    past = jnp.tril(jnp.ones((length, length), bool))
    shares = jax.nn.softmax(jnp.where(past, scores.astype(jnp.float32), -jnp.inf))
    seen = jnp.einsum("bhqk,bkhd->bqhd", shares.astype(x.dtype), value)
    return seen.reshape(batch, length, width) @ layer["seen"]


def loss_of(weights: Any, words: Any, heads: int) -> Any:
    """Of the next word. No sum is a scatter, whose deterministic form is a loop."""
    half = jax.tree.map(lambda w: w.astype(jnp.bfloat16), weights)
    which = jax.nn.one_hot(words, len(half["words"]), dtype=jnp.bfloat16)
    x = which @ half["words"]
    for layer in half["layers"]:
        x = x + attention(normed(x), layer, heads)
        x = x + jax.nn.gelu(normed(x) @ layer["widen"]) @ layer["narrow"]
    scores = (normed(x)[:, :-1] @ half["words"].T).astype(jnp.float32)
    return -(jax.nn.log_softmax(scores) * which[:, 1:]).sum(-1).mean()


def updated(state: Any, words: Any, heads: int) -> tuple[dict[str, Any], Any]:
    """The state after a step, and the loss before it."""
    loss, slopes = jax.value_and_grad(loss_of)(state["weights"], words, heads)
    step = state["step"] + 1
    first = jax.tree.map(lambda m, s: FIRST * m + (1 - FIRST) * s, state["first"], slopes)
    second = jax.tree.map(lambda v, s: SECOND * v + (1 - SECOND) * s**2, state["second"], slopes)

    def moved(weight: Any, m: Any, v: Any) -> Any:
        spread = jnp.sqrt(v / (1 - SECOND**step)) + EPSILON
        return weight - RATE * m / (1 - FIRST**step) / spread

    weights = jax.tree.map(moved, state["weights"], first, second)
    return {"weights": weights, "first": first, "second": second, "step": step}, loss
