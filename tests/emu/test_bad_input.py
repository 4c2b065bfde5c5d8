"""Bad input: a running program is unharmed, and where a line is due there is exactly one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pump import binding
from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

TOO_LONG = "x" * 4096
BAD = [
    ("ULMS_LOG_LEVEL", "LOUD"),
    ("ULMS_BACKEND", "vm"),
    ("ULMS_GPU_MEMORY", "0"),
    ("ULMS_GPU_MEMORY", "20000000T"),
    ("WRAPPER_MAX_MEMORY", "lots"),
    ("CUDA_DEVICE_MEMORY_LIMIT", "lots"),
    ("GPU_MEMORY_LIMIT", "lots"),
    ("ULMS_GPU_MEMORY_FACTOR", "101"),
    ("ULMS_GPU_MEMORY_FACTOR", "seventy"),
    ("ULMS_HOOKS", "none"),
    ("ULMS_POLICY", "fifo"),
    ("ULMS_HIDDEN", "no"),
    ("ULMS_VERIFY", "2"),
    ("ULMS_MANAGED_LIMIT", "-1"),
    ("ULMS_PAGE", "3MiB"),
    ("ULMS_PAGE", "128MiB"),
    ("ULMS_PLAIN", TOO_LONG),
    ("ULMS_SHARE", "n,limit=1.5"),
    ("ULMS_SHARE_DIR", TOO_LONG),
    ("ULMS_SUSPEND_SIGNAL", "KILL"),
    ("ULMS_FILE_DIR", TOO_LONG),
    ("ULMS_FILE_LIMIT", "0"),
    ("ULMS_TRACE", TOO_LONG),
    ("ULMS_STATS", "1"),
]
TOO_OLD = {"EMU_DRIVER_VERSION": "11020"}
"""From 11.3 on a driver gives its functions by name."""

Outcome = tuple[str, int]
Train = Callable[[Mapping[str, str]], tuple[str, Outcome]]


def outcome(done: CompletedProcess[str]) -> Outcome:
    return done.stdout, done.returncode


@pytest.fixture
def train(compiled: Compile, run_emulated: RunEmulated) -> Train:
    """Trains with an environment, by itself and under ulms.so; what was said, and the outcome."""

    def run(env: Mapping[str, str]) -> tuple[str, Outcome]:
        command = [compiled("train", "-ldl"), "10"]
        plain = run_emulated(command, env, preloaded=False)
        under = run_emulated(command, env)
        assert outcome(under) == outcome(plain)
        assert under.stderr.endswith(plain.stderr)
        return under.stderr.removesuffix(plain.stderr), outcome(plain)

    return run


def test_every_option_is_tried() -> None:
    rows = binding.option_rows()
    assert {name for name, _ in BAD} == {name for row in rows for name in (row.name, *row.aliases)}


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_that_is_not_accepted(name: str, value: str, train: Train) -> None:
    said, (output, status) = train({name: value})
    assert said.startswith(f"[ulms] ERROR: {name}={value[:200]} is not accepted (")
    assert said.count("\n") == 1
    assert (output.count("loss"), status) == (2, 0)


@pytest.mark.parametrize("option", ["ULMS_TRACE", "ULMS_STATS"])
@pytest.mark.parametrize("place", ["no/such/folder", "file/below", "folder"])
def test_a_path_that_cannot_be_written(
    option: str, place: str, train: Train, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("of somebody else")
    path = tmp_path / place
    said, (output, status) = train({option: str(path)})
    what = "trace" if option == "ULMS_TRACE" else "counters"
    assert said.startswith(f"[ulms] ERROR: no {what} in {path}: ")
    assert said.count("\n") == 1
    assert (output.count("loss"), status) == (2, 0)
    assert (tmp_path / "file").read_text() == "of somebody else"


@pytest.mark.parametrize("env", [TOO_OLD, {"EMU_DEVICES": "0"}, {"EMU_FAIL": "cuInit:error=999"}])
def test_cuda_that_cannot_be_used(env: dict[str, str], train: Train) -> None:
    """Nothing is read and nothing is said where the program could not initialise CUDA."""
    said, (output, status) = train({**env, "ULMS_BACKEND": "nonsense", "ULMS_LOG_LEVEL": "DEBUG"})
    assert (said, output, status) == ("", "", 1)


def test_no_driver(train: Train, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    said, (output, status) = train({"LD_LIBRARY_PATH": str(tmp_path), "ULMS_BACKEND": "nonsense"})
    assert (said, output, status) == ("", "", 1)
