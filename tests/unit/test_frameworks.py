"""What `pump run` sets for the frameworks that are there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pump import frameworks
from pump.frameworks import GRAPHS, HEAP, chosen, first_line, interpreter, is_short
from pump.sizes import MIB

pytestmark = pytest.mark.unit

FLAGS = f"{HEAP}={256 * MIB} {GRAPHS}="
HOOK = str(Path(__file__).parents[2] / "pump" / "sitecustomize")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The Python of an environment with nothing in it."""
    for folder in ("bin", "lib/python3.11/site-packages"):
        (tmp_path / folder).mkdir(parents=True)
    program = tmp_path / "bin" / "python"
    program.symlink_to(sys.executable)
    return program


def install(python: Path, *names: str) -> None:
    for name in names:
        (python.parent.parent / f"lib/python3.11/site-packages/{name}.dist-info").mkdir()


@pytest.mark.parametrize(
    ("there", "base", "expected"),
    [
        ([], {}, {}),
        (["numpy-2.0"], {}, {}),
        (["cudf_cu13-26.2"], {}, {"CUDF_PANDAS_RMM_MODE": "async"}),
        (["cupy_cuda13x-14.0"], {}, {"PYTHONPATH": HOOK}),
        (["cupy-14.0"], {"PYTHONPATH": "mine"}, {"PYTHONPATH": f"{HOOK}:mine"}),
        (
            ["tensorflow-2.19.0"],
            {"TF_GPU_ALLOCATOR": ""},
            {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
        ),
        (
            ["jax_cuda13_plugin-0.10.2"],
            {"TF_CPP_MIN_LOG_LEVEL": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "true"},
            {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async", "XLA_FLAGS": FLAGS},
        ),
    ],
)
def test_what_is_set(
    python: Path, there: list[str], base: dict[str, str], expected: dict[str, str]
) -> None:
    install(python, *there)
    assert chosen([str(python)], {}, base) == expected


@pytest.mark.parametrize(
    ("there", "knows"),
    [
        (["jax_cuda12_plugin-0.4.26"], True),
        (["jax_cuda12_plugin-0.4.25"], False),
        (["jax_cuda12_plugin-0.5.0", "tensorflow-2.15.1"], False),
        (["tensorflow-2.19.0"], False),
    ],
)
def test_flags_go_to_nobody_who_would_end_at_them(
    python: Path, there: list[str], knows: bool
) -> None:
    install(python, *there)
    assert ("XLA_FLAGS" in chosen([str(python)], {}, {})) == knows


@pytest.mark.parametrize(
    ("own", "memory", "flags"),
    [
        ("--xla_a=1", "", f"{FLAGS} --xla_a=1"),
        (f"{HEAP}=-1", "", f"{GRAPHS}= {HEAP}=-1"),
        (f"{FLAGS}x", "", None),
        ("", "1GiB", f"{HEAP}={64 * MIB} {GRAPHS}="),
        ("", "4GiB", f"{HEAP}={256 * MIB} {GRAPHS}="),
        ("", "80GiB", f"{HEAP}={(1 << 31) - 1} {GRAPHS}="),
    ],
)
def test_flags(python: Path, own: str, memory: str, flags: str | None) -> None:
    install(python, "jax_cuda13_plugin-0.10.2")
    found = chosen([str(python)], {"ULMS_GPU_MEMORY": memory}, {"XLA_FLAGS": own})
    assert found.get("XLA_FLAGS") == flags


def test_a_script_runs_in_the_python_that_it_names(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "bin" / "torchrun"
    script.write_text(f"#!{python}\n", encoding="utf-8")
    script.chmod(0o755)
    assert interpreter(str(script), None) == python
    script.write_text("#!/usr/bin/env python\n", encoding="utf-8")
    assert interpreter("torchrun", str(tmp_path / "bin")) == python
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    assert interpreter("torchrun", str(tmp_path / "bin")) is None


def test_a_pipe_that_may_be_run_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o755)
    assert first_line(tmp_path / "pipe") == b""


@pytest.mark.parametrize("place", ["lib64/python3.11/site-packages", "home", "base"])
def test_packages_that_lie_elsewhere_are_found(python: Path, tmp_path: Path, place: str) -> None:
    """As on Fedora, and after `pip install --user`."""
    user = ".local/lib/python3.11/site-packages"
    base = {"HOME": str(tmp_path)} if place == "home" else {}
    base |= {"PYTHONUSERBASE": str(tmp_path / ".local")} if place == "base" else {}
    folder = tmp_path / (user if base else place)
    (folder / "jax_cuda13_plugin-0.10.2.dist-info").mkdir(parents=True)
    assert "XLA_FLAGS" in chosen([str(python)], {}, base)
    if base:
        assert chosen([str(python)], {}, {**base, "PYTHONNOUSERSITE": "1"}) == {}
        (tmp_path / "pyvenv.cfg").touch()
        assert chosen([str(python)], {}, base) == {}


@pytest.mark.parametrize("named", ["", "env"])
def test_uv_runs_the_python_of_its_project(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    install(python, "jax_cuda13_plugin-0.10.2")
    project = tmp_path / "project"
    (project / "below").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / (named or ".venv")).symlink_to(tmp_path)
    monkeypatch.chdir(project / "below")
    base = {"PATH": "", "UV_PROJECT_ENVIRONMENT": named} if named else {"PATH": ""}
    assert "XLA_FLAGS" in chosen(["uv", "run", "train.py"], {}, base)
    assert chosen(["uv", "tool", "train.py"], {}, base) == {}
    (project / "pyproject.toml").rename(project / "other")
    found = chosen(["uv", "run", "train.py"], {}, {"PATH": "", "VIRTUAL_ENV": str(tmp_path)})
    assert "XLA_FLAGS" in found


def test_a_program_that_cannot_be_read_runs_in_the_first_python(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "train"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o711)
    (tmp_path / "bin" / "python3").symlink_to(python)
    monkeypatch.setattr(
        frameworks, "open_regular", lambda _: (_ for _ in ()).throw(PermissionError)
    )
    assert interpreter("train", str(tmp_path / "bin")) == tmp_path / "bin" / "python3"


@pytest.mark.parametrize(
    ("variables", "short"),
    [
        ({}, False),
        ({"ULMS_GPU_MEMORY": "8GiB"}, True),
        ({"ULMS_SHARE": "a"}, True),
        ({"ULMS_GPU_MEMORY": "8GiB", "ULMS_BACKEND": "observe"}, False),
    ],
)
def test_when_memory_is_short(variables: dict[str, str], short: bool) -> None:
    assert is_short(variables, {}) == is_short({}, variables) == short


CUPY = """
import threading
class cuda:
    chosen = print
    hooked = []
    class MemoryHook:
        def __enter__(self):
            cuda.hook = self
            cuda.hooked.append(threading.current_thread())
    class MemoryPool:
        def malloc(self, size):
            return Memory(cuda.at, -(-size // 512) * 512)
    @staticmethod
    def set_allocator(allocator):
        {0}
class Memory:
    def __init__(self, ptr, size):
        self.ptr, self.size, self.mem = ptr, size, self
"""
TOLD = """
#include <stdint.h>
#include <stdio.h>
void ulms_block(uint64_t start, int64_t bytes) {
    printf("%llu %lld\\n", (unsigned long long)start, (long long)bytes);
    fflush(stdout);
}
"""
USES = """
import sitecustomize, cupy, threading
cupy.cuda.at = 4096
assert cupy.cuda.chosen == cupy._default_memory_pool.malloc
cupy.cuda.chosen(1000)
cupy.cuda.hook.free_preprocess(device_id=0, mem_size=1024, mem_ptr=4096, pmem_id=1)
cupy.cuda.hook.free_preprocess(device_id=0, mem_size=512, mem_ptr=1 << 20, pmem_id=2)
cupy.cuda.chosen(512)
cupy.cuda.chosen(600)
cupy.cuda.chosen(0)
other = threading.Thread(target=lambda: [cupy.cuda.chosen(0) for _ in range(2)])
other.start()
other.join()
assert cupy.cuda.hooked == [threading.current_thread(), other]
"""


def with_cupy(tmp_path: Path, body: str, program: str, **env: str) -> str:
    """What a program says where there is a CuPy with such an allocator."""
    (tmp_path / "cupy.py").write_text(CUPY.format(body), encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text("mine = __name__\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{HOOK}:{tmp_path}", **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_the_library_hears_of_what_cupy_gives_out(tmp_path: Path) -> None:
    """What is freed, what was given out to others, what another thread freed, and nothing."""
    source, library = tmp_path / "told.c", tmp_path / "told.so"
    source.write_text(TOLD, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    said = with_cupy(
        tmp_path, "cuda.chosen = staticmethod(allocator)", USES, LD_PRELOAD=str(library)
    )
    assert said.split("\n") == [
        "4096 1024",
        "4096 -1024",
        "4096 512",
        "4096 -512",
        "4096 1024",
        "",
    ]


@pytest.mark.parametrize("body", ["cuda.chosen = allocator", "raise RuntimeError('too old')"])
def test_cupy_stays_as_it_is_where_nobody_hears(tmp_path: Path, body: str) -> None:
    """And another file of that name runs as it would have."""
    program = "import sitecustomize, cupy; print(sitecustomize.mine, cupy.cuda.chosen is print)"
    assert with_cupy(tmp_path, body, program) == "sitecustomize True\n"
