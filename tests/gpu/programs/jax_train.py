"""JAX: a small model trained under jit.

Its memory comes through the driver's VMM calls, its steps run as CUDA graphs.
"""

import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")

import jax
import jax.numpy as jnp
from report import report, run_steps


def loss_of(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    for w in weights:
        x = jax.nn.gelu(x @ w)
    return (x**2).mean()


def main() -> None:
    warm, timed = int(sys.argv[1]), int(sys.argv[2])
    key = jax.random.PRNGKey(0)
    state = {"weights": [jax.random.normal(key, (2048, 2048)) * 0.02 for _ in range(4)]}
    x = jax.random.normal(key, (512, 2048))
    gradient = jax.jit(jax.value_and_grad(loss_of))
    losses: list[jax.Array] = []

    def step() -> None:
        loss, slopes = gradient(state["weights"], x)
        state["weights"] = [w - 0.1 * s for w, s in zip(state["weights"], slopes, strict=True)]
        losses.append(loss)

    def wait() -> None:
        jnp.asarray(state["weights"][0]).block_until_ready()

    step_ms = run_steps(step, wait, warm, timed)
    report([float(loss) for loss in losses], step_ms, jax=jax.__version__)


if __name__ == "__main__":
    main()
