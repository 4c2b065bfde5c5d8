"""Runs the checks of a change and ends with one table.

`steps.py GROUP...` runs the named groups: lint, c, sanitizers, unit, emu, alone; check: quick unit
tests; format changes what lint would refuse. Steps run one after the other, but for two pairs.
Linters, each of which fills one processor, run beside what is compiled. Unit tests run beside those
whose verdict depends on time: these mostly sleep, and the others get only the time that is left
over. Each step's output goes to build/logs/; the end of it is shown when the step fails. A failed
step does not stop the others. Exit status 1 when any failed. A tool that is missing fails its step,
except offline (OFFLINE=1), where the step is skipped and says so.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

LOGS = Path("build/logs")
BUILD = Path(os.environ.get("PUMP_BUILD_DIR", "build/dev"))
C_FILES = sorted(
    str(path)
    for folder in (
        "broker",
        "share",
        "csrc",
        "hooks",
        "emulator",
        "tests",
        "bench",
        "lab",
        "examples",
    )
    for path in Path(folder).rglob("*.[ch]")
)
TAIL_LINES = 60
JOBS = min(4, len(os.sched_getaffinity(0)))
"""Tests at a time. A container may be allowed less than it sees: few, so that none starves."""
HANGS_S = 400
"""A test that takes longer hangs."""

STAGES = (
    (("format",),),
    (("lint",), ("c", "sanitizers")),
    (("check", "emu"),),
    (("alone",), ("unit",)),
)
"""Groups, one stage after the other; in a stage its lanes beside one another."""


@dataclass(frozen=True)
class Step:
    """One check: commands run in order, and the JUnit file the last one writes, if any."""

    group: str
    name: str
    commands: tuple[tuple[str, ...], ...]
    junit: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a step. Counts are of tests; None where the step counts none."""

    step: Step
    state: str  # "ok", "failed" or "skipped"
    seconds: float
    passed: int | None = None
    skipped: int | None = None
    note: str = ""


def ctest(build: Path, name: str) -> tuple[tuple[str, ...], Path]:
    """The ctest command over a build tree, and the JUnit file it writes."""
    junit = (LOGS / f"{name}.xml").resolve()
    command = ("ctest", "--test-dir", str(build), "--output-on-failure", "-j", str(JOBS))
    return (*command, "--output-junit", str(junit)), junit


def sanitizer(preset: str, title: str) -> Step:
    """Configures, builds and runs the C tests of a sanitizer preset."""
    run, junit = ctest(Path("build") / preset, f"ctest-{preset}")
    build = (("cmake", "--preset", preset), ("cmake", "--build", "--preset", preset))
    return Step("sanitizers", title, (*build, (*without_aslr(), *run)), junit)


def left_over() -> tuple[str, ...]:
    """A prefix for what runs only while nothing else would; none where that is not allowed."""
    return tried("chrt", "--idle", "0")


def without_aslr() -> tuple[str, ...]:
    """A prefix that switches address randomisation off where that is allowed.

    ThreadSanitizer of gcc 12 cannot place its shadow under the wide randomisation of newer kernels.
    """
    return tried("setarch", "-R")


def tried(*prefix: str) -> tuple[str, ...]:
    """The prefix where it is there and allowed, or none."""
    if not shutil.which(prefix[0]):
        return ()
    works = subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode == 0
    return prefix if works else ()


def pytest(name: str, marks: str, jobs: int, group: str = "", prefix: Sequence[str] = ()) -> Step:
    """The Python tests with these marks, several at a time, and each with a bound, where the
    plugins for that are installed.
    """
    junit = (LOGS / f"pytest-{name}.xml").resolve()
    command = [*prefix, sys.executable, "-P", "-m", "pytest", "tests", "-q", "-m", marks]
    command += [f"--junitxml={junit}"]
    if jobs > 1 and importlib.util.find_spec("xdist"):
        command += ["-n", str(jobs), "--dist", "worksteal"]
    if importlib.util.find_spec("pytest_timeout"):
        command += [f"--timeout={HANGS_S}"]
    return Step(group or name, f"pytest, {name}", (tuple(command),), junit)


def all_steps() -> list[Step]:
    """Every step, in the order in which they run."""
    ctests, ctest_junit = ctest(BUILD, "ctest")
    return [
        Step("format", "format C", (("clang-format", "-i", *C_FILES),)),
        Step(
            "format",
            "format Python",
            (("ruff", "check", "--fix-only", "--quiet", "."), ("ruff", "format", "--quiet", ".")),
        ),
        Step("lint", "clang-format", (("clang-format", "--dry-run", "-Werror", *C_FILES),)),
        Step("lint", "ruff check", (("ruff", "check", "."),)),
        Step("lint", "ruff format", (("ruff", "format", "--check", "."),)),
        Step("lint", "mypy", (("mypy",),)),
        Step("lint", "codespell", (("codespell",),)),
        Step("c", "C tests", (ctests,), ctest_junit),
        sanitizer("asan", "C tests, ASan and UBSan"),
        sanitizer("tsan", "C tests, TSan"),
        pytest("quick", "unit and not alone and not slow", JOBS, group="check"),
        pytest("emu", "emu and not alone", JOBS + 2),  # an emulated device's programs sleep
        pytest("alone-or-gpu", "alone or gpu", 1, group="alone"),
        pytest("unit", "unit and not alone", JOBS, prefix=left_over()),
    ]


def run(step: Step) -> Outcome:
    """Runs one step, its output going to its log."""
    started = time.monotonic()
    tool = step.commands[0][0]
    if os.environ.get("OFFLINE") and not shutil.which(tool):
        return Outcome(step, "skipped", 0.0, note=f"{tool} is not here")
    log = LOGS / f"{step.name.replace(', ', '-').replace(' ', '-')}.log"
    if step.junit:
        step.junit.unlink(missing_ok=True)
    with log.open("wb") as sink:
        good = all(call(command, sink.fileno()) for command in step.commands)
    seconds = time.monotonic() - started
    passed, skipped = count(step.junit)
    if not good:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
        print(f"{step.name}: failed", *tail, sep="\n    ", flush=True)
        return Outcome(step, "failed", seconds, passed, skipped, note=str(log))
    return Outcome(step, "ok", seconds, passed, skipped)


def run_all(steps: Sequence[Step]) -> list[Outcome]:
    """Runs steps one after the other, and tells of each."""
    outcomes = []
    for step in steps:
        print(f"{step.name} ...", flush=True)
        outcome = run(step)
        if outcome.state != "failed":
            print(f"{step.name}: {outcome.state}", flush=True)
        outcomes.append(outcome)
    return outcomes


def call(command: tuple[str, ...], sink: int) -> bool:
    """Runs a command without input; true when it exits with 0."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, check=False
        )
    except FileNotFoundError:
        os.write(sink, f"{command[0]}: not found\n".encode())
        return False
    return result.returncode == 0


def count(junit: Path | None) -> tuple[int | None, int | None]:
    """Tests passed and skipped according to a JUnit file; None where there is none."""
    if junit is None or not junit.exists():
        return None, None
    cases = list(ElementTree.parse(junit).getroot().iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    bad = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    return len(cases) - skipped - bad, skipped


def table(outcomes: list[Outcome]) -> str:
    """The summary: one row a step."""
    rows: list[tuple[str, ...]] = [("step", "result", "passed", "skipped", "seconds", "")]
    for outcome in outcomes:
        counts = ("" if n is None else str(n) for n in (outcome.passed, outcome.skipped))
        seconds = f"{outcome.seconds:.1f}"
        rows.append((outcome.step.name, outcome.state, *counts, seconds, outcome.note))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 2 <= column <= 4 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def main() -> int:
    """Runs the groups named on the command line."""
    steps = all_steps()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="+", choices=sorted({step.group for step in steps}))
    groups = parser.parse_args().groups
    LOGS.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for stage in STAGES:
        lanes = [[s for s in steps if s.group in groups and s.group in lane] for lane in stage]
        with ThreadPoolExecutor(len(lanes) if left_over() else 1) as pool:
            outcomes += [outcome for lane in pool.map(run_all, lanes) for outcome in lane]
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    left_out = sum(outcome.state == "skipped" for outcome in outcomes)
    print(f"\n{table(outcomes)}\n")
    print(f"{failed} of {len(outcomes)} steps failed" if failed else "all good", end="")
    print(f"; {left_out} steps skipped" if left_out else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
