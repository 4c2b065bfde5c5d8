"""Random programs as judges: what a run says under ulms.so must be what it says without.

`tests/programs/random_program.c` makes a program of a seed. A case is a seed, how ulms.so is set
up, which of its driver calls fail and what happens to the process; the judge runs it and compares.
Failures are injected into the calls that ulms.so makes by itself, never into the program's own.
"""

import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pump import paths
from pump.preload import preload

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("PUMP_BUILD_DIR", ROOT / "build" / "dev"))
SOURCES = sorted((ROOT / "tests" / "programs").glob("random_*.c"))
SETUPS = ("observe", "none", "pump", "ahead", "vmm")
"""How ulms.so is set up: nothing replaced, backend `um` under a policy, or backend `vmm`."""
OURS = (
    "ULMS_",
    "EMU_",
    "WRAPPER_MAX_MEMORY",
    "CUDA_DEVICE_",
    "GPU_MEMORY_LIMIT",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
)
PAGE = 2 << 20
VMM_PAGES = (PAGE, 2 * PAGE, 4 * PAGE)
TRACED, VERIFIED = 3, 5
"""One program in so many is traced under `observe`, and watched for hidden writes under `vmm`."""
OVER = (1.2, 1.5, 2.0, 3.0, 4.0)
LOOKED_AT = (1, 6, 12, 15, 19, 22, 25, 28, 31, 35, 51, 53, 54)
"""Seeds of small programs that tell which calls ulms.so makes: three or more make each."""
LARGE = "96GiB"
"""A device that has room for a context of ours for each mover of `um`: every other program's."""
SMALL_FACTOR = 2  # per cent
HELD_TO = ("ahead", "vmm")
"""Set-ups that must keep to their budget."""
TIMEOUT_S = 180.0
"""A program takes a tenth of a second, ten under a sanitizer beside others; this is for hangs."""
ENDS = {"kill": -signal.SIGKILL, "exit": 3}
"""Events that end the process at once, the second in a handler of SIGTERM; its status then."""
EVENTS = (*ENDS, "fork", "call", "clone")
"""The others make a child: which calls nothing of the driver, which does, and by a raw clone."""
LATE_S = 4.0
"""The process may take so much longer to its end than natively."""
COUNTERS = Path("/dev/shm")
GATES = ("cuLaunchHostFunc", "cuStreamWaitValue32_v2", "cuGraphAddHostNode")
"""Calls that make an operation wait for the host."""


@dataclass(frozen=True)
class Case:
    """One run: a seed, a set-up, and the program's memory as a multiple of the budget."""

    seed: int
    setup: str = "observe"
    over: float = 1.0
    count: int = 1
    """Programs in the process: this seed and those after it."""
    fail: str = ""
    """As in EMU_FAIL; empty: nothing fails."""
    time: str = "0"
    """As in EMU_TIME."""
    event: str = ""
    """One of EVENTS; empty: nothing happens."""

    def command(self) -> str:
        """What repeats it, in the root of the sources."""
        words = ["--seed", str(self.seed), "--setup", self.setup, "--over", f"{self.over:g}"]
        words += ["--count", str(self.count)] if self.count > 1 else []
        words += ["--fail", self.fail] if self.fail else []
        words += ["--time", self.time] if self.time != "0" else []
        words += ["--event", self.event] if self.event else []
        return "PYTHONPATH=. python -m tests.soak " + shlex.join(words)


@dataclass(frozen=True)
class Resident:
    """Bytes, by the emulator's own count."""

    most: int
    """In use at a time."""
    pages: int
    """Of managed memory whose content was not discarded, at a time."""
    touched: int
    """Of managed memory, that one operation touched, in whole pages."""
    operation: int = 0
    """The same, as ulms.so took it; 0: nothing moved."""
    gated: int = 0
    """Beyond the budget, by ulms.so's count: operations behind a closed gate went on without their
    pages, which come all at once when it opens."""


@dataclass(frozen=True)
class Outcome:
    """What a process said, and how it ended: its exit status, or None when it hung."""

    status: int | None
    stdout: str
    stderr: str
    process: int
    ended: float
    """On the clock of `time.monotonic`."""

    def peak(self) -> int:
        """The bytes that the program had allocated at most."""
        return max(int(line.split()[1]) for line in self.stdout.splitlines() if line[:5] == "peak ")

    def gates(self) -> bool:
        """The program has operations that wait for the host."""
        return any(f"\ncalls {name} " in self.stdout for name in GATES)

    def calls(self) -> dict[str, int]:
        """Calls of the driver but the program's own, of the names that were asked about."""
        rows = (line.split() for line in self.stderr.splitlines() if line.startswith("driver "))
        return {name: int(count) for _, name, count in rows}

    def reports(self) -> str:
        """What is on stderr, but what the program itself says there."""
        lines = self.stderr.splitlines(keepends=True)
        own = ("driver ", "failed ", "resident ", "event ", "away ", "left ")
        return "".join(line for line in lines if not line.startswith(own))

    def resident(self) -> "Resident":
        """What was on the device at most."""
        rows = (line.split() for line in self.stderr.splitlines())
        (numbers,) = (map(int, row[1:]) for row in rows if row[:1] == ["resident"])
        return Resident(*numbers)

    def took(self) -> float:
        """Seconds from the event that ended it; 0 where none did."""
        rows = (line.split() for line in self.stderr.splitlines())
        return max((self.ended - float(row[1]) for row in rows if row[:1] == ["event"]), default=0)

    def left(self) -> list[str]:
        """Files of counters that it left behind."""
        return [str(path) for path in COUNTERS.glob(f"ulms-{self.process}-*")]

    def failed(self) -> int:
        """Calls that were made to fail."""
        rows = (line.split() for line in self.stderr.splitlines())
        return sum(int(row[1]) for row in rows if len(row) == 2 and row[0] == "failed")


@dataclass(frozen=True)
class Verdict:
    """What is not as in the native run (empty: all is), and how many calls were made to fail."""

    text: str
    failed: int
    calls: Mapping[str, int]
    """As in `Outcome.calls`."""


def compile_program(target: Path) -> Path:
    """Compiles the program there; its path. Raises CalledProcessError."""
    command = ["cc", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [f"-I{ROOT / folder}" for folder in ("", "hooks", "csrc", "emulator")]
    command += [f"-I{BUILD / 'gen'}", "-o", str(target), *map(str, SOURCES)]
    libraries = (paths.emulator_dir() / name for name in ("libcuda.so.1", "libnvidia-ml.so.1"))
    subprocess.run([*command, *map(str, libraries)], check=True)
    return target


def driver_functions() -> list[str]:
    """The functions of the emulated driver, by the names that failures go by."""
    command = ["nm", "-D", "--defined-only", "--format=posix"]
    library = paths.emulator_dir() / "libcuda.so.1"
    text = subprocess.run([*command, library], check=True, capture_output=True, text=True).stdout
    symbols = {line.split()[0] for line in text.splitlines()}
    bases = {symbol.removesuffix("_ptsz").removesuffix("_ptds") for symbol in symbols}
    return sorted({base.split("_v")[0] for base in bases if base.startswith("cu")})


def beyond_budget(case: Case, truth: Outcome, found: Outcome, budget: int) -> int:
    """Bytes that were on the device at a time beyond the budget, in whole pages, and one operation.

    In place of one operation those count that could not be held behind a gate of the program's
    own, as far as they passed the budget. What it asked to be managed is the driver's to place, and
    left out. Under `um` so are what was discarded, which keeps its place, and what came to a kernel
    through addresses that nothing shows. Under `vmm` the program's own memory counts, as much as
    the driver takes for it: natively so much more than it asked for.
    """
    resident, native = found.resident(), truth.resident()
    budget = -(-budget // PAGE) * PAGE
    managed = min(resident.pages, native.pages)
    if case.setup == "vmm":
        rounding = native.most - truth.peak()
        return resident.most - managed - rounding - budget - resident.operation
    gated = resident.gated if truth.gates() else 0
    return resident.pages - managed - budget - max(resident.operation, resident.touched, gated)


def difference(truth: str, found: str) -> str:
    """The first lines that differ."""
    rows = zip(truth.splitlines(), [*found.splitlines(), *[""] * 1000], strict=False)
    lines = [f"  native {a}\n  found  {b}" for a, b in rows if a != b]
    return "\n".join(lines[:6]) or f"  found more: {found[len(truth) :][:400]}"


@dataclass
class Judge:
    """Runs cases of one compiled program. Its methods may be called from several threads."""

    program: Path
    launcher: tuple[str, ...] = ()
    """What starts it."""
    timeout_s: float = TIMEOUT_S
    truths: dict[tuple[int, int, str], Outcome] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def trace(self, process: int | str) -> Path:
        """Where a traced process writes; its own file, as one keeps others out."""
        return self.program.with_name(f"trace-{process}")

    def environment(
        self, case: Case | None, extra: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The variables of a run; without a case those of a native one."""
        base = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        base["LD_LIBRARY_PATH"] = str(paths.emulator_dir())
        base |= extra or {}
        if case is None:
            return base
        base |= {"EMU_TIME": case.time, "EMU_FAIL": case.fail}
        options = {"ULMS_BACKEND": "observe"}
        if case.seed % TRACED == 0:
            options |= {"ULMS_TRACE": str(self.trace("%p"))}
        if case.setup != "observe":
            page = PAGE
            options = {"ULMS_BACKEND": "um", "ULMS_POLICY": case.setup}
            if case.setup == "vmm":
                page = VMM_PAGES[case.seed % len(VMM_PAGES)]
                options = {"ULMS_BACKEND": "vmm", "ULMS_PAGE": str(page)}
                # every other one; what is mapped elsewhere comes back only once it is unmapped:
                # so where that is refused nothing is, as when it is verified
                if case.seed // len(VMM_PAGES) % 2 and "cuMemUnmap" not in case.fail:
                    options |= {"ULMS_HIDDEN": "known"}
                if case.seed % VERIFIED == 0 or "cuMemUnmap" in case.fail:
                    options |= {"ULMS_VERIFY": "1"}
            peak = self.truth(replace(case, event="")).peak()
            budget = max(int(peak / case.over), page)
            if case.fail:  # what is plain then must not meet a limit of the user's
                base["EMU_MEMORY"] = str(budget * 100 // SMALL_FACTOR)
                options |= {"ULMS_GPU_MEMORY_FACTOR": str(SMALL_FACTOR)}
                if "cuDeviceGetUuid" in case.fail:  # asked for where there is a limit
                    options |= {"ULMS_GPU_MEMORY": base["EMU_MEMORY"]}
            else:
                options |= {"ULMS_GPU_MEMORY": str(budget), "ULMS_GPU_MEMORY_FACTOR": "100"}
                if case.seed % 2:
                    base["EMU_MEMORY"] = LARGE
        if case.event:
            options |= {"ULMS_STATS": "on"}
        return preload([], options, base=base).environment(base)

    def run(self, case: Case, environment: Mapping[str, str], names: Iterable[str] = ()) -> Outcome:
        """Runs a case's programs; with names, asks how often those driver functions were called."""
        command = [*self.launcher, str(self.program), str(case.seed), str(case.count)]
        command += [case.event or "none", *names]
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=self.timeout_s)
                return Outcome(process.returncode, out, err, process.pid, time.monotonic())
            except subprocess.TimeoutExpired:
                where = stacks(process.pid)
                process.kill()
                out, err = process.communicate()
                return Outcome(None, out, err + where, process.pid, time.monotonic())
            finally:
                self.trace(process.pid).unlink(missing_ok=True)

    def truth(self, case: Case) -> Outcome:
        """The native run of a case's programs; once."""
        key = case.seed, case.count, case.event
        with self.lock:
            known = self.truths.get(key)
        if known is None:
            known = self.run(case, self.environment(None))
            if known.status != ENDS.get(case.event, 0):
                raise RuntimeError(f"seed {case.seed} fails without ulms.so: {known}")
            with self.lock:
                self.truths[key] = known
        return known

    def differs(self, case: Case) -> str:
        """Runs a case; empty when all is as in the native run, else what is not."""
        return self.verdict(case).text

    def verdict(self, case: Case, names: Iterable[str] = ()) -> Verdict:
        """Runs a case and compares. What follows one that was killed finds nothing of it."""
        environment = self.environment(case)
        found = self.run(case, environment, names)
        text = self.compare(case, found, environment)
        if case.event == "kill" and not text:
            after = replace(case, event="")
            text = self.compare(after, self.run(after, environment), environment)
        if not text and (left := found.left()):
            text = f"left behind: {left}"
        text = f"{case.command()}\n  {text}" if text else ""
        return Verdict(text, found.failed(), found.calls())

    def compare(self, case: Case, found: Outcome, environment: Mapping[str, str]) -> str:
        """What of a run is not as in the native one; empty: nothing."""
        truth = self.truth(case)
        if (found.status, found.stdout) != (truth.status, truth.stdout):
            end = "hung" if found.status is None else f"exit status {found.status}"
            return f"{end}\n{difference(truth.stdout, found.stdout)}\n{found.stderr[-6000:]}"
        if found.took() > truth.took() + LATE_S:
            return f"ended {found.took():.1f} s after {case.event}, natively {truth.took():.1f}"
        return self.over_budget(case, found, environment)

    def over_budget(self, case: Case, found: Outcome, environment: Mapping[str, str]) -> str:
        """Empty where the run kept to its budget; else by how much it did not."""
        if case.setup not in HELD_TO or case.fail or case.count > 1 or case.event in ENDS:
            return ""
        budget = int(environment["ULMS_GPU_MEMORY"])
        beyond = beyond_budget(case, self.truth(case), found, budget)
        if beyond <= 0:
            return ""
        return f"{beyond} bytes beyond {budget} and one operation: {found.resident()}"

    def own_calls(self, cases: Iterable[Case]) -> dict[str, dict[int, int]]:
        """The driver functions that ulms.so calls by itself: how often, by seed.

        Raises RuntimeError where a run differs from the native one.
        """
        names = driver_functions()
        found: dict[str, dict[int, int]] = {}
        for case in cases:
            verdict = self.verdict(case, names)
            if verdict.text:
                raise RuntimeError(verdict.text)
            for name in names:
                if verdict.calls[name]:
                    found.setdefault(name, {})[case.seed] = verdict.calls[name]
        return found


def looked_at(setup: str) -> list[Case]:
    """Programs that together make each call that ulms.so makes by itself under a set-up."""
    return [Case(seed, setup, OVER[seed % len(OVER)]) for seed in LOOKED_AT]


def stacks(pid: int) -> str:
    """Where the threads of a process are, where there is a debugger."""
    if not shutil.which("gdb"):
        return ""
    command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return done.stdout
