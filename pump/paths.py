"""Where files lie: `ulms.so`, the emulated device, coverage data, recorded steps."""

from pathlib import Path

TRACES = "*.ulms.gz"
"""Names of recorded steps, as `pump trace` compresses them."""


class NotBuiltError(RuntimeError):
    """A compiled part is not beside the Python package: it was not installed, only found."""


def installed(name: str) -> Path:
    """The path of an installed file of the package. Raises NotBuiltError when it is not there."""
    path = Path(__file__).parent / name
    if not path.exists():
        from importlib.resources import files  # slow; an editable install has them elsewhere

        path = Path(str(files("pump").joinpath(name)))
    if not path.exists():
        raise NotBuiltError(f"{name} is not built: run `make`, or install the package with pip")
    return path.resolve()


def checkout() -> Path | None:
    """The repository's root when the package lies in it, as sources or built; else None."""
    above = Path(__file__).resolve().parents
    return next((root for root in above if (root / "bench" / "traces").is_dir()), None)


def sources() -> Path | None:
    """The repository's root: where the package lies in it, else where this process stands in it."""
    here = Path.cwd()
    roots = (root for root in (here, *here.parents) if (root / "bench" / "traces").is_dir())
    return checkout() or next(
        (root for root in roots if (root / "pump" / "paths.py").exists()), None
    )


def traces() -> dict[str, Path]:
    """The recorded steps by name. They lie in the repository: a wheel has none."""
    root = sources()
    paths = sorted((root / "bench" / "traces").glob(TRACES)) if root else []
    return {trace_name(path): path for path in paths}


def trace_name(path: Path) -> str:
    """What a recorded step is called: its file's name without what tells the format."""
    return Path(path.name.removesuffix(".gz")).stem


def library() -> Path:
    """The path of `ulms.so`."""
    return installed("ulms.so")


def emulator_dir() -> Path:
    """The directory with the emulated `libcuda.so.1` and `libnvidia-ml.so.1`."""
    return installed("emulator/libcuda.so.1").parent


def coverage() -> Path:
    """The path of `names.json`: every driver function known, and what is made of it."""
    return installed("names.json")
