"""CuPy as a program's framework: on a GPU only."""

import cupy as cp


def begin(device: str) -> None:
    """Its kernels are deterministic, but for sums of libraries (cupy_mix.py)."""
    if device != "cuda":
        raise ValueError("CuPy runs on a GPU only")


def wait() -> None:
    """Until the device has done all."""
    cp.cuda.runtime.deviceSynchronize()


def reserved() -> int:
    """What its pool took: under `pump run` the one of pump/sitecustomize."""
    return int(cp.get_default_memory_pool().total_bytes())


def version() -> dict[str, str]:
    """By its name."""
    return {"cupy": cp.__version__}
