"""Kernels of a library's call that are one operation, of recurrent networks: none of them waits or
is looked at for itself, and what they use stays until the call has returned.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import BUILD, ROOT, Compile, RunEmulated, made_once
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

DNN = "libcudnn.so.9"
KERNELS = 32  # of a call
THREADS, LAYERS, MIB, STEPS = 1, 6, 8, 8
NEEDS = (2 * LAYERS + 1) * MIB  # of a thread
BACKENDS = {
    "um": {"ULMS_BACKEND": "um"},
    "vmm": {"ULMS_BACKEND": "vmm"},
    "verify": {"ULMS_BACKEND": "vmm", "ULMS_VERIFY": "1"},
}
WATCHDOG_S = 120


class Run(NamedTuple):
    """What each layer came to, in order, and the counters."""

    computed: list[str]
    counters: dict[str, int]


class Network:
    """together.c, and what it prints natively."""

    def __init__(self, binary: Path, run: RunEmulated, library: Path) -> None:
        self.binary, self.emulated, self.library = binary, run, library
        self.native: dict[tuple[str, ...], list[str]] = {}

    def run(self, words: Sequence[object], env: dict[str, str] | None) -> Run:
        """Under these settings; None: natively."""
        done = self.emulated(
            [self.binary, *words],
            {"LD_LIBRARY_PATH": f"{self.library}:{BUILD / 'emulator'}", **(env or {})},
            preloaded=env is not None,
            timeout=WATCHDOG_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
        lines = done.stdout.splitlines()
        return Run(sorted(line for line in lines if "layer" in line), counters_in(done.stdout))

    def same(self, words: Sequence[object], env: dict[str, str]) -> dict[str, int]:
        """It computes what it does natively; the counters."""
        key = tuple(map(str, words))
        if key not in self.native:
            self.native[key] = self.run(words, None).computed
        found = self.run(words, env)
        assert found.computed == self.native[key] != []
        return found.counters


@pytest.fixture(scope="module")
def network(common_folder: Path, compiled: Compile, run_emulated: RunEmulated) -> Network:
    library = common_folder / "together-libraries"
    library.mkdir(exist_ok=True)
    script = library / "versions.map"
    script.write_text(f"{DNN} {{ global: *; }};\n", encoding="utf-8")
    driver = BUILD / "emulator" / "libcuda.so.1"
    command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += [f"-I{ROOT / folder}" for folder in ("hooks", "csrc", "emulator")]
    command += [f"-I{BUILD / 'gen'}", f"-Wl,-soname,{DNN}", f"-Wl,--version-script={script}"]
    source = ROOT / "tests" / "programs" / "together_dnn.c"
    dnn = made_once(
        library / DNN,
        lambda target: subprocess.run(
            [*command, str(source), str(driver), "-o", str(target)], check=True
        ),
    )
    return Network(compiled("together", str(dnn), str(driver)), run_emulated, library)


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
    counters = network.same([THREADS, 2, 16, STEPS, cleared], BACKENDS[backend] | budget(32))
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


@pytest.mark.parametrize("after", [80, 100, 120, 250])
@pytest.mark.parametrize("call", ["cuMemMap", "cuMemSetAccess", "cuMemUnmap"])
def test_what_is_lost_is_used_by_no_kernel_of_a_call(
    network: Network, call: str, after: int
) -> None:
    """Each is refused, or none is: the context stays."""
    words = [THREADS, LAYERS, MIB, STEPS]
    env = BACKENDS["vmm"] | budget(NEEDS * 2 // 3, EMU_FAIL=f"{call}:after={after}:error=2:sticky")
    done = network.emulated(
        [network.binary, *words],
        {"LD_LIBRARY_PATH": f"{network.library}:{BUILD / 'emulator'}", **env},
        timeout=WATCHDOG_S,
    )
    if done.returncode:
        last = done.stderr.splitlines()[-1]
        assert last == "refused 2, then 0" or last.endswith("error 2")
    else:
        sums = sorted(line for line in done.stdout.splitlines() if "layer" in line)
        assert sums == network.run(words, None).computed
