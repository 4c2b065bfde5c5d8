"""What `pump run` sets where memory is short, so that frameworks' allocators tell where buffers
begin, end and die: an array that is a part of a large block cannot move by itself.

Nothing that the user has set is changed, and nothing is set for what is not installed.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pump.preload import joined
from pump.regular import open_regular
from pump.sizes import MIB, parse_memory

Version = tuple[int, ...]

PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")
KNOW_FLAGS: dict[str, Version] = dict.fromkeys(PLUGINS, (0, 4, 26)) | {
    "tensorflow": (2, 16),
    "torch_xla": (2, 3),
}
"""Since when what reads XLA_FLAGS knows those below: an unknown one ends the process."""
SETTINGS = {
    "tensorflow": {"TF_GPU_ALLOCATOR": "cuda_malloc_async", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    "cudf": {"CUDF_PANDAS_RMM_MODE": "async"},
    "jax": {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}
"""Of a distribution, by how its name begins."""
LIBRARIES, PACKAGES = ("lib", "lib64"), ("site-packages", "dist-packages")
HEAP, GRAPHS = "--xla_multiheap_size_constraint_per_heap", "--xla_gpu_enable_command_buffer"
HEAP_PARTS = 16
HEAP_LEAST, HEAP_UNKNOWN, HEAP_MOST = 64 * MIB, 256 * MIB, (1 << 31) - 1
"""Bytes. A heap that is smaller than a buffer costs memory; one that is large moves as a whole."""
SHORT = ("ULMS_GPU_MEMORY", "ULMS_GPU_MEMORY_FACTOR", "ULMS_SHARE")


def is_short(options: Mapping[str, str], base: Mapping[str, str]) -> bool:
    """Whether the user said that there is less memory than the GPU has."""
    both = {**base, **options}
    return moves(both) and any(both.get(name) for name in SHORT)


def moves(variables: Mapping[str, str]) -> bool:
    """Whether the backend moves memory, and shares."""
    return variables.get("ULMS_BACKEND", "auto").lower() not in ("observe", "off")


def chosen(
    command: Sequence[str], options: Mapping[str, str], base: Mapping[str, str]
) -> dict[str, str]:
    """Variables for the frameworks of the Python that the command runs."""
    there = distributions(folders(command, base))
    wanted = {
        name: value
        for prefix, settings in SETTINGS.items()
        if any(has(prefix, name) for name in there)
        for name, value in settings.items()
        if name not in base
    }
    if knows_flags(there):
        if flags := xla_flags(base.get("XLA_FLAGS", ""), {**base, **options}):
            wanted["XLA_FLAGS"] = flags
        wanted |= {} if "TF_CPP_MIN_LOG_LEVEL" in base else {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if any(has("cupy", name) for name in there):
        here = str(Path(__file__).with_name("sitecustomize"))
        wanted["PYTHONPATH"] = joined(here, base, "PYTHONPATH")
    return wanted


def has(prefix: str, name: str) -> bool:
    """`cupy` is `cupy_cuda13x`, too."""
    return name == prefix or name.startswith(prefix + "_")


def knows_flags(there: Mapping[str, Version]) -> bool:
    """XLA of JAX is there, and nothing that would end at its flags."""
    readers = {name: KNOW_FLAGS[name] for name in KNOW_FLAGS if name in there}
    return any(name in there for name in PLUGINS) and all(
        there[name] >= least for name, least in readers.items()
    )


def xla_flags(own: str, variables: Mapping[str, str]) -> str:
    """The user's, and in front of them ours that are not among them; empty: none of ours."""
    try:
        size = parse_memory(variables.get("ULMS_GPU_MEMORY", ""))
        heap = min(max(size // HEAP_PARTS, HEAP_LEAST), HEAP_MOST)
    except ValueError:
        heap = HEAP_UNKNOWN
    ours = [f"{HEAP}={heap}", f"{GRAPHS}="]
    new = [flag for flag in ours if flag.partition("=")[0] not in own]
    return " ".join([*new, *own.split()]) if new else ""


def folders(command: Sequence[str], base: Mapping[str, str]) -> list[Path]:
    """Where the packages of the command's Python lie."""
    python = project_python(command, base) or interpreter(command[0], base.get("PATH"))
    found = [Path(path) for path in base.get("PYTHONPATH", "").split(":") if path]
    if python:
        root = python.parent.parent
        roots = [*user_roots(root, base), root, root / "local"]
        found += [
            folder
            for at in roots
            for library in LIBRARIES
            for packages in PACKAGES
            for folder in at.glob(f"{library}/python3*/{packages}")
        ]
    return found


def user_roots(root: Path, base: Mapping[str, str]) -> list[Path]:
    """Where `pip install --user` puts them, if a Python that lies there looks: not in a virtual
    environment.
    """
    if base.get("PYTHONNOUSERSITE") or (root / "pyvenv.cfg").exists():
        return []
    if own := base.get("PYTHONUSERBASE"):
        return [Path(own)]
    return [Path(home) / ".local"] if (home := base.get("HOME")) else []


def project_python(command: Sequence[str], base: Mapping[str, str]) -> Path | None:
    """The Python that `uv run` takes: that of the project which this folder belongs to."""
    if Path(command[0]).name != "uv" or "run" not in command[1:]:
        return None
    here = Path.cwd()
    folders = [at for at in (here, *here.parents) if (at / "pyproject.toml").exists()][:1]
    places = [at / base.get("UV_PROJECT_ENVIRONMENT", ".venv") for at in folders]
    if not folders:
        places = [Path(own)] if (own := base.get("VIRTUAL_ENV")) else []
        places += [at / ".venv" for at in (here, *here.parents)]
    pythons = (at / "bin" / "python" for at in places)
    return next((python for python in pythons if python.exists()), None)


def interpreter(program: str, path: str | None) -> Path | None:
    """The Python that runs a program: itself, that of a script, or the one that comes first."""
    found = shutil.which(program, path=path)
    if found and not Path(found).name.startswith("python"):
        line = first_line(Path(found))
        words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
        found = next((word for word in reversed(words) if "python" in word), None)
    first = shutil.which(found or "python3", path=path)
    return Path(first) if first else None


def first_line(path: Path) -> bytes:
    """Empty: what may be run need not be readable."""
    try:
        with open_regular(path) as file:
            return file.readline(4096)
    except OSError:
        return b""


def distributions(places: Sequence[Path]) -> dict[str, Version]:
    """Names as they are written in file names, and versions."""
    found: dict[str, Version] = {}
    for place in places:
        for info in place.glob("*.dist-info"):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
            found.setdefault(name.lower().replace("-", "_"), numbers)
    return found
