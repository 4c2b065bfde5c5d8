"""JAX as a program's framework."""

import os

import jax

DETERMINISTIC = (
    "--xla_gpu_deterministic_ops=true",
    "--xla_gpu_autotune_level=0",
    "--xla_disable_hlo_passes=rematerialization",  # it would compute more where it sees less memory
)


def begin(device: str) -> None:
    """It takes memory as it needs it, not most of the device at once. What is set stays."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    names = {flag.partition("=")[0] for flag in flags}
    flags += [flag for flag in DETERMINISTIC if flag.partition("=")[0] not in names]
    os.environ["XLA_FLAGS"] = " ".join(flags)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax.config.update("jax_platforms", device)


def wait() -> None:
    """Until everything that lives has been computed."""
    jax.block_until_ready(jax.live_arrays())


def reserved() -> int:
    """What its allocator gave out."""
    told = jax.local_devices()[0].memory_stats() or {}
    return int(told.get("peak_bytes_in_use", 0))


def version() -> dict[str, str]:
    """By its name."""
    return {"jax": jax.__version__}
