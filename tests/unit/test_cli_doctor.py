"""`pump doctor`: each finding from plain facts."""

import os
from pathlib import Path

import pytest

from pump.doctor import Level, driver, environment, machine, program
from pump.doctor.finding import Finding
from pump.probe import Device, Driver
from pump.sizes import GIB

pytestmark = pytest.mark.unit

HERE = machine.Clues(
    container=False,
    wsl=False,
    device_nodes=False,
    glibc=(2, 36),
    glibc_needed=(2, 17),
    shared_memory=GIB,
    host_memory=64 * GIB,
)
GOOD = Driver(version=13000, devices=[Device("GPU", 40 * GIB, True)])


def changed(**facts: object) -> machine.Clues:
    """HERE with some facts changed."""
    return machine.Clues(**{**vars(HERE), **facts})


def levels(findings: list[Finding]) -> list[Level]:
    """Their levels, in order."""
    return [finding.level for finding in findings]


def test_a_good_driver_is_ok() -> None:
    found = list(driver.findings(GOOD, HERE))
    assert levels(found) == [Level.OK, Level.OK]
    assert found[1].text == "GPU, 40.0 GiB"


@pytest.mark.parametrize(
    ("clues", "advice"),
    [
        (HERE, "install the NVIDIA driver"),
        (changed(device_nodes=True), "put the directory of libcuda.so.1 on the loader path"),
        (changed(container=True, device_nodes=True), "--gpus all"),
    ],
)
def test_no_driver_is_a_problem_with_advice_for_the_place(
    clues: machine.Clues, advice: str
) -> None:
    (found,) = driver.findings(Driver(error="cannot open shared object file"), clues)
    assert found.level is Level.PROBLEM
    assert advice in found.advice
    assert "pump run --emulator" in found.advice


@pytest.mark.parametrize(
    ("version", "level"),
    [
        (11020, Level.PROBLEM),
        (11030, Level.NOTE),
        (12030, Level.NOTE),
        (12040, Level.OK),
        (13010, Level.OK),
    ],
)
def test_the_driver_version_decides(version: int, level: Level) -> None:
    found = driver.version_finding(version)
    assert found.level is level
    assert f"CUDA {version // 1000}.{version % 1000 // 10}" in found.text


@pytest.mark.parametrize("status", [100, 802, 803, 999, 12345])
def test_a_driver_that_does_not_start_is_a_problem(status: int) -> None:
    found = list(driver.findings(Driver(version=13000, status=status), HERE))
    assert levels(found) == [Level.OK, Level.PROBLEM]
    assert str(status) in found[1].text
    assert found[1].advice


def test_a_device_without_concurrent_managed_access_is_noted() -> None:
    poor = Driver(version=13000, devices=[Device("vGPU", GIB, False)])
    assert levels(list(driver.findings(poor, HERE))) == [Level.OK, Level.OK, Level.NOTE]


def test_a_good_machine_is_ok() -> None:
    for clues in (HERE, changed(glibc=HERE.glibc_needed)):
        assert set(levels(list(machine.findings(clues, 40 * GIB)))) == {Level.OK}


@pytest.mark.parametrize(
    ("clues", "device_memory", "subject", "level"),
    [
        (changed(glibc=()), 0, "C library", Level.PROBLEM),
        (changed(glibc=(2, 16)), 0, "C library", Level.PROBLEM),
        (changed(shared_memory=None), 0, "/dev/shm", Level.PROBLEM),
        (changed(shared_memory=4096), 0, "/dev/shm", Level.PROBLEM),
        (HERE, 80 * GIB, "host memory", Level.NOTE),
        (changed(wsl=True), 0, "system", Level.NOTE),
    ],
)
def test_what_a_machine_lacks_is_found(
    clues: machine.Clues, device_memory: int, subject: str, level: Level
) -> None:
    (bad,) = (f for f in machine.findings(clues, device_memory) if f.level is not Level.OK)
    assert (bad.subject, bad.level) == (subject, level)


def test_this_machine_is_described() -> None:
    clues = machine.Clues.gather()
    assert clues.glibc >= clues.glibc_needed
    assert clues.host_memory > 0


@pytest.mark.parametrize(
    ("library", "level"),
    [
        ("/opt/hami/libvgpu.so", Level.PROBLEM),
        ("/usr/lib/libnvshare.so", Level.PROBLEM),
        ("/usr/lib/libasan.so.8", Level.NOTE),
        ("/usr/lib/libjemalloc.so.2", Level.NOTE),
    ],
)
def test_other_preloaded_libraries_are_judged(library: str, level: Level) -> None:
    paths = environment.preloaded({"LD_PRELOAD": f"{library}:/x/ulms.so"})
    assert paths == [library]
    assert levels(list(environment.neighbour_findings(paths))) == [level]


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, 0),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False,max_split_size_mb:64"}, 0),
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True"}, 1),
        ({"PYTORCH_ALLOC_CONF": "expandable_segments: true"}, 1),
        ({"PYTORCH_ALLOC_CONF": "expandable_segments:True", "ULMS_BACKEND": "VMM"}, 0),
    ],
)
def test_settings_that_keep_memory_from_moving_are_noted(
    settings: dict[str, str], count: int
) -> None:
    found = list(environment.framework_findings(settings))
    assert levels(found) == [Level.NOTE] * count
    assert all("expandable_segments" in finding.text for finding in found)


def test_trace_paths_are_looked_at(tmp_path: Path) -> None:
    assert environment.trace_finding(str(tmp_path / "t.%p")).level is Level.OK
    assert environment.trace_finding(str(tmp_path)).level is Level.PROBLEM
    assert environment.trace_finding("/no/such/directory/t").level is Level.PROBLEM


def test_places_of_counters_and_files_are_looked_at(tmp_path: Path) -> None:
    def judge(**variables: str) -> list[Finding]:
        found = environment.findings({f"ULMS_{name}": text for name, text in variables.items()})
        return [each for each in found if each.subject in ("counters", "files")]

    taken = tmp_path / "taken"
    taken.touch()
    good = judge(STATS=f"{tmp_path}/%p", FILE_DIR=str(tmp_path))
    assert levels(good) == [Level.OK, Level.OK]
    bad = judge(STATS="/no/such/directory/s", FILE_DIR="/no/such/directory")
    bad += judge(STATS=str(taken), FILE_DIR=str(taken))
    assert levels(bad) == [Level.PROBLEM] * 4
    assert judge(STATS="on") == []


def test_programs_are_judged(tmp_path: Path) -> None:
    def judge(content: bytes, mode: int = 0o755) -> Finding:
        path = tmp_path / "program"
        path.write_bytes(content)
        path.chmod(mode)
        *_, last = program.findings(str(path))
        return last

    elf = bytearray(Path("/bin/true").read_bytes())
    assert judge(bytes(elf)).level is Level.OK
    assert judge(bytes(elf), 0o4755).level is Level.OK
    assert "LD_PRELOAD is ignored" in next(iter(program.findings(str(tmp_path / "program")))).text
    static = elf.copy()
    static[56:58] = b"\0\0"  # no program headers: nobody asks for a loader
    assert "statically linked" in judge(bytes(static)).text
    foreign = elf.copy()
    foreign[18:20] = b"\x08\0"
    assert "machine 8, 64 bits" in judge(bytes(foreign)).text
    assert judge(b"#!/bin/sh\nexit\n").advice == "ask about that: pump doctor /bin/sh"
    assert judge(b"text").level is Level.PROBLEM
    assert "names no interpreter" in judge(b"#! \n").text
    os.mkfifo(tmp_path / "pipe", 0o755)
    assert "is no regular file" in next(iter(program.findings(str(tmp_path / "pipe")))).text
    assert next(iter(program.findings("no-such-program"))).level is Level.PROBLEM
