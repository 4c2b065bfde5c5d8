"""A convolutional network in JAX, training, 192 images of 64 x 64, f32, momentum."""

from typing import Any

import jax
import jax.numpy as jnp

from bench.gpu.workloads.sizes import JAX_CONV, Images
from bench.gpu.workloads.work import Work

RATE, MOMENTUM, EPSILON = 1e-3, 0.9, 1e-5
LAYOUT = "NHWC", "HWIO", "NHWC"


def make(device: str, tiny: bool) -> Work:
    """Convolution, batch norm and ReLU, in every layer."""
    size = JAX_CONV[tiny]
    keys = iter(jax.random.split(jax.random.key(0), 100))
    shape = (size.batch, size.side, size.side, 3)
    images = jax.random.normal(next(keys), shape)
    labels = jax.random.randint(next(keys), (size.batch,), 0, size.classes)
    weights = weights_of(size, keys)
    state = {"weights": weights, "momentum": jax.tree.map(jnp.zeros_like, weights)}
    update = jax.jit(updated, donate_argnums=0)
    numbers: list[float] = []

    def step() -> None:
        nonlocal state
        state, loss = update(state, images, labels)
        numbers.append(float(loss))

    return Work(step, numbers)


def weights_of(size: Images, keys: Any) -> dict[str, Any]:
    """Of the convolutions, their norms and the classes."""
    layers, before = [], 3
    for width in size.widths:
        for _ in range(size.layers):
            spread = (2 / (9 * before)) ** 0.5
            kernel = jax.random.normal(next(keys), (3, 3, before, width)) * spread
            layers.append({"kernel": kernel, "scale": jnp.ones(width), "shift": jnp.zeros(width)})
            before = width
    head = jax.random.normal(next(keys), (before, size.classes)) * before**-0.5
    return {"layers": layers, "head": head}


def loss_of(weights: Any, images: Any, labels: Any) -> Any:
    """Cross entropy. No sum is a scatter, whose deterministic form is a loop."""
    x = images
    for layer in weights["layers"]:
        wider = x.shape[-1] > 3 and layer["kernel"].shape[-1] > x.shape[-1]
        strides = (2, 2) if wider else (1, 1)
        x = jax.lax.conv_general_dilated(
            x, layer["kernel"], strides, "SAME", dimension_numbers=LAYOUT
        )
        mean = x.mean((0, 1, 2))
        spread = jax.lax.rsqrt(x.var((0, 1, 2)) + EPSILON)
        x = jax.nn.relu((x - mean) * spread * layer["scale"] + layer["shift"])
    scores = jax.nn.log_softmax(x.mean((1, 2)) @ weights["head"])
    return -(scores * jax.nn.one_hot(labels, scores.shape[1])).sum(1).mean()


def updated(state: Any, images: Any, labels: Any) -> tuple[dict[str, Any], Any]:
    """The state after a step, and the loss before it."""
    loss, slopes = jax.value_and_grad(loss_of)(state["weights"], images, labels)
    momentum = jax.tree.map(lambda m, s: MOMENTUM * m + s, state["momentum"], slopes)
    weights = jax.tree.map(lambda w, m: w - RATE * m, state["weights"], momentum)
    return {"weights": weights, "momentum": momentum}, loss
