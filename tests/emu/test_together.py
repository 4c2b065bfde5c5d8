"""Kernels of a library's call that are one operation, of recurrent networks: none of them waits or
is looked at for itself, and what they use stays until the call has returned.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import BUILD, Compile, RunEmulated, made_once
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

DNN = "libcudnn.so.9"
KERNELS = 32  # of a call
THREADS, LAYERS, MIB, STEPS = 1, 6, 4, 8
NEEDS = (2 * LAYERS + 1) * MIB  # of a thread
BACKENDS = {
    "um": {"ULMS_BACKEND": "um"},
    "vmm": {"ULMS_BACKEND": "vmm"},
    "verify": {"ULMS_BACKEND": "vmm", "ULMS_VERIFY": "1"},
}
WATCHDOG_S = 120


class Network:
    """together.c, and what it prints natively."""

    def __init__(self, binary: Path, run: RunEmulated, library: Path) -> None:
        self.binary, self.emulated, self.library = binary, run, library
        self.native: dict[tuple[str, ...], list[str]] = {}

    def run(
        self, words: Sequence[object], env: dict[str, str] | None
    ) -> subprocess.CompletedProcess[str]:
        """Under these settings; None: natively."""
        return self.emulated(
            [self.binary, *words],
            {"LD_LIBRARY_PATH": f"{self.library}:{BUILD / 'emulator'}", **(env or {})},
            preloaded=env is not None,
            timeout=WATCHDOG_S,
        )

    def natively(self, words: Sequence[object]) -> list[str]:
        """What it computes without the library."""
        key = tuple(map(str, words))
        if key not in self.native:
            self.native[key] = computed_in(self.run(words, None))
        return self.native[key]

    def same(self, words: Sequence[object], env: dict[str, str]) -> dict[str, int]:
        """It computes what it does natively; the counters."""
        done = self.run(words, env)
        assert computed_in(done) == self.natively(words) != []
        return counters_in(done.stdout)


def computed_in(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What each layer came to, of a run that says nothing else."""
    assert (done.returncode, done.stderr) == (0, "")
    return sums_in(done.stdout)


def sums_in(output: str) -> list[str]:
    """A line for each layer, in order."""
    return sorted(line for line in output.splitlines() if "layer" in line)


@pytest.fixture(scope="module")
def network(common_folder: Path, compiled: Compile, run_emulated: RunEmulated) -> Network:
    library = common_folder / "together-libraries"
    library.mkdir(exist_ok=True)
    versions = f"{DNN} {{ global: *; }};\n"
    script = made_once(library / "versions.map", lambda target: target.write_text(versions))
    driver = str(BUILD / "emulator" / "libcuda.so.1")
    named = (f"-Wl,-soname,{DNN}", f"-Wl,--version-script={script}")
    dnn = compiled("together_dnn", driver, *named, shared=True)
    made_once(library / DNN, lambda target: target.symlink_to(dnn))
    return Network(compiled("together", str(dnn), driver), run_emulated, library)


def budget(mib: int, **more: str) -> dict[str, str]:
    """Pages may have so much."""
    return {"ULMS_GPU_MEMORY": f"{mib}MiB", "ULMS_GPU_MEMORY_FACTOR": "100"} | more


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cleared", ["", "work", "own"])
def test_kernels_of_a_call_are_one_operation(network: Network, backend: str, cleared: str) -> None:
    """What is issued between them and touches anything else ends it, and the next begins anew."""
    words = [THREADS, LAYERS, MIB, STEPS, cleared]
    counters = network.same(words, BACKENDS[backend] | budget(NEEDS * 2 // 3))
    calls = LAYERS * STEPS
    learnt = counters["predicted"] + counters["surprises"]
    each = 4 if cleared == "own" else 2  # what comes before the call, the call; in it, its rest
    assert counters["launches"] == calls * KERNELS
    assert calls * (each - 0.5) < learnt <= calls * each + 2 * LAYERS + 1
    assert counters["evicted_bytes"] > 0
    assert counters["violations"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cleared", ["work", "own"])
def test_a_call_may_need_more_than_there_is(network: Network, backend: str, cleared: str) -> None:
    counters = network.same(
        [THREADS, 2, 2 * MIB, STEPS, cleared], BACKENDS[backend] | budget(4 * MIB)
    )
    assert counters["short_operations"] > 0
    assert counters["violations"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_have_calls_of_their_own(network: Network, backend: str) -> None:
    words = [2, 4, MIB, STEPS, "own"]
    counters = network.same(words, BACKENDS[backend] | budget(5 * MIB))
    assert counters["launches"] == 2 * 4 * STEPS * KERNELS
    assert counters["violations"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_keeps_nothing_that_has_returned(network: Network, backend: str) -> None:
    """Else the memory of those threads would lack, as no operation of theirs follows."""
    counters = network.same([3, 1, 2 * MIB, STEPS, "turns"], BACKENDS[backend] | budget(7 * MIB))
    assert counters["short_operations"] == 0


@pytest.mark.parametrize("after", [40, 120])
@pytest.mark.parametrize("call", ["cuMemMap", "cuMemSetAccess", "cuMemUnmap"])
def test_what_is_lost_is_used_by_no_kernel_of_a_call(
    network: Network, call: str, after: int
) -> None:
    """Each is refused, or none is: the context stays."""
    words = [THREADS, LAYERS, MIB, STEPS]
    env = BACKENDS["vmm"] | budget(NEEDS * 2 // 3, EMU_FAIL=f"{call}:after={after}:error=2:sticky")
    done = network.run(words, env)
    if done.returncode:
        last = done.stderr.splitlines()[-1]
        assert last == "refused 2, then 0" or last.endswith("error 2")
    else:
        assert sums_in(done.stdout) == network.natively(words)
