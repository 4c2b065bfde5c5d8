"""The environment: does LD_PRELOAD work, what else is preloaded, are the options good."""

import contextlib
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pump import paths
from pump.binding import option_rows
from pump.doctor.finding import Finding, note, ok, problem
from pump.preload import preload
from pump.probe import COMMAND

TIMEOUT_S = 60
MAPPED = "print(open('/proc/self/maps').read())"
PREFIX = "ULMS_"
SYSTEM_PRELOAD = Path("/etc/ld.so.preload")

# Preloaded libraries that stand between a program and the driver as well.
RIVALS = {
    "libvgpu.so": "HAMi's memory limit",
    "libnvshare.so": "nvshare",
    "libcuda-control.so": "a vGPU manager",
    "libgemhook.so": "KubeShare",
    "torch_memory_saver": "torch_memory_saver",
    "libxsched": "XSched",
    "libshim": "XSched",
}
SANITIZERS = ("libasan", "libtsan", "libubsan")
PYTORCH_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def findings(variables: Mapping[str, str]) -> Iterator[Finding]:
    """What there is to say about an environment."""
    yield from preload_findings(variables)
    yield from neighbour_findings(preloaded(variables))
    yield from option_findings(variables)
    yield from framework_findings(variables)
    if trace := variables.get("ULMS_TRACE"):
        yield trace_finding(trace)
    stats = variables.get("ULMS_STATS", "")
    if "/" in stats:
        yield stats_finding(stats)
    if folder := variables.get("ULMS_FILE_DIR"):
        yield folder_finding(folder)


def preloaded(variables: Mapping[str, str]) -> list[str]:
    """The libraries preloaded into programs, in order, without ulms.so."""
    text = variables.get("LD_PRELOAD", "")
    with contextlib.suppress(OSError):  # the file rarely exists
        text += " " + SYSTEM_PRELOAD.read_text(encoding="utf-8", errors="replace")
    return [path for path in re.split(r"[\s:]+", text) if path and Path(path).name != "ulms.so"]


def preload_findings(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Does a program start under ulms.so, and is ulms.so then in it?"""
    try:
        started = run([sys.executable, "-ISc", MAPPED], variables)
    except ValueError as error:
        yield problem("LD_PRELOAD", str(error), "install PUMP in another folder")
        return
    if started.returncode == 0 and str(paths.library()) in started.stdout and not started.stderr:
        yield ok("LD_PRELOAD", str(paths.library()))
    else:
        said = started.stderr.strip().splitlines()[:1] or ["it was not loaded"]
        yield problem(
            "LD_PRELOAD", f"a program under ulms.so: {said[0]}", "check LD_PRELOAD and permissions"
        )


def neighbour_findings(libraries: list[str]) -> Iterator[Finding]:
    """Do other preloaded libraries get in the way?"""
    for path in libraries:
        name = Path(path).name
        rival = next((what for start, what in RIVALS.items() if name.startswith(start)), None)
        if rival:
            yield problem(
                "LD_PRELOAD",
                f"{path} ({rival}) stands between program and driver too",
                "preload only one of the two",
            )
        elif name.startswith(SANITIZERS):
            yield note("LD_PRELOAD", f"{path} is a sanitizer's", "it must come before ulms.so")
        else:
            yield note("LD_PRELOAD", f"{path} is preloaded too")


def option_findings(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Are the options known, and does ulms.so accept their values?"""
    names = {name for row in option_rows() for name in (row.name, *row.aliases)}
    given = [name for name in variables if name.startswith(PREFIX) or name in names]
    for name in given:
        if name not in names:
            ends = [each.removeprefix(PREFIX) for each in names]
            close = difflib.get_close_matches(name.removeprefix(PREFIX), ends, 1, 0.5)
            advice = (
                f"did you mean {PREFIX}{close[0]}?" if close else "`pump options` lists them all"
            )
            yield note("options", f"{name} is not an option", advice)
    complaints = ulms_complaints(variables)
    for line in complaints:
        yield problem("options", line, "`pump options` says what is accepted")
    good = [name for name in given if name in names and not any(name in c for c in complaints)]
    if good:
        yield ok("options", ", ".join(f"{name}={variables[name]}" for name in sorted(good)))
    elif not given:
        yield ok("options", "none set: the defaults hold")


def framework_findings(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Do settings of frameworks keep memory from moving?"""
    if variables.get("ULMS_BACKEND", "").lower() == "vmm":
        return
    for name in PYTORCH_ALLOCATOR:
        if re.search(r"expandable_segments\s*:\s*true", variables.get(name, ""), re.IGNORECASE):
            yield note(
                "PyTorch",
                f"{name} has expandable_segments: such memory moves only with vmm",
                "leave it out, or choose --backend vmm",
            )


def ulms_complaints(variables: Mapping[str, str]) -> list[str]:
    """What ulms.so says at ERROR when it starts in a program on the emulated device."""
    with tempfile.TemporaryDirectory() as scratch:
        redirected = dict(variables)  # whether the paths can be written is looked at elsewhere
        for name in ("ULMS_TRACE", "ULMS_STATS"):
            if "/" in variables.get(name, ""):
                redirected[name] = str(Path(scratch) / name)
        try:
            started = run(COMMAND, redirected, emulator=True)
        except ValueError:
            return []  # preload_findings says it
    if started.returncode != 0:
        return [f"a program with these options fails: exit status {started.returncode}"]
    mark = "[ulms] ERROR: "
    return [
        line.removeprefix(mark) for line in started.stderr.splitlines() if line.startswith(mark)
    ]


def run(
    command: Sequence[str], variables: Mapping[str, str], *, emulator: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a command under ulms.so. Raises ValueError when ulms.so cannot be preloaded."""
    program = preload(command, {}, emulator=emulator, base=variables)
    return subprocess.run(
        command,
        env=program.environment(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def path_of(text: str) -> Path:
    """A place that an option names."""
    return Path(text.replace("%p", str(os.getpid())))


def stats_finding(text: str) -> Finding:
    """Can counters be shown there?"""
    path = path_of(text)
    advice = "name another file in ULMS_STATS, or say on"
    if path.exists() or path.is_symlink():
        return problem("counters", f"{text} exists already", f"remove it, or {advice}")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        return problem("counters", f"{text} cannot be written", advice)
    return ok("counters", text)


def folder_finding(text: str) -> Finding:
    """Can files of host memory be made there?"""
    path = path_of(text)
    if not path.is_dir():
        return problem("files", f"{text} is no folder", "make it, or name another in ULMS_FILE_DIR")
    if not os.access(path, os.W_OK | os.X_OK):
        return problem("files", f"{text} cannot be written", "name another in ULMS_FILE_DIR")
    return ok("files", text)


def trace_finding(text: str) -> Finding:
    """Can a trace be written there?"""
    path = path_of(text)
    if path.is_dir():
        return problem("trace", f"{text} is a directory", "name a file in ULMS_TRACE")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        told = f"{text} is a link, a pipe or a device, which is not opened"
        return problem("trace", told, "name another file in ULMS_TRACE")
    if not os.access(path.absolute().parent, os.W_OK):
        return problem("trace", f"{text} cannot be written", "name another file in ULMS_TRACE")
    if path.exists():
        told = f"{text} exists: the next trace gets a number behind this name"
        return note("trace", told, "put %p in the name, or remove the file")
    return ok("trace", text)
