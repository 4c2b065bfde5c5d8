"""`pump doctor` where it starts programs: under ulms.so, on the emulated device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pump import paths
from pump.cli import main
from pump.doctor import Level, environment
from pump.doctor.finding import Finding
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.emu


def levels(findings: list[Finding]) -> list[Level]:
    """Their levels, in order."""
    return [finding.level for finding in findings]


def test_preloading_works_here() -> None:
    assert levels(list(environment.preload_findings({}))) == [Level.OK]


def test_a_broken_preload_is_a_problem() -> None:
    (found,) = environment.preload_findings({"LD_PRELOAD": "/no/such/lib.so"})
    assert found.level is Level.PROBLEM
    assert "/no/such/lib.so" in found.text


def test_a_folder_that_cannot_be_preloaded_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All else is looked at as well."""
    library = tmp_path / "my projects" / "ulms.so"
    library.parent.mkdir()
    library.symlink_to(paths.library())
    monkeypatch.setattr(paths, "library", lambda: library)
    first, *rest = environment.findings({"ULMS_LOG_LEVEL": "INFO"})
    assert (first.level, first.advice) == (Level.PROBLEM, "install PUMP in another folder")
    assert "a space" in first.text
    assert levels(rest) == [Level.OK]
    assert main(["run", "--", "true"]) == 2
    assert "ulms.so: install PUMP in another folder" in capsys.readouterr().err


def test_unset_options_are_ok() -> None:
    assert levels(list(environment.option_findings({}))) == [Level.OK]


def test_an_unknown_option_is_noted_with_the_nearest_name() -> None:
    (found,) = environment.option_findings({"ULMS_LOGLEVEL": "INFO"})
    assert (found.level, found.advice) == (Level.NOTE, "did you mean ULMS_LOG_LEVEL?")


def test_bad_option_values_are_problems_and_good_ones_ok() -> None:
    given = {"ULMS_GPU_MEMORY_FACTOR": "200", "ULMS_LOG_LEVEL": "INFO"}
    found = list(environment.option_findings(given))
    assert levels(found) == [Level.PROBLEM, Level.OK]
    assert "ULMS_GPU_MEMORY_FACTOR" in found[0].text
    assert "200" in found[0].text
    assert found[1].text == "ULMS_LOG_LEVEL=INFO"


def test_examining_writes_no_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    assert levels(list(environment.option_findings({"ULMS_TRACE": str(trace)}))) == [Level.OK]
    assert not trace.exists()


def doctor(emulator_dir: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`pump doctor` in a process of its own, with the emulated driver on the loader path."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "pump", "doctor", *words],
        env={**os.environ, "LD_LIBRARY_PATH": str(emulator_dir), **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_machine_with_a_driver_and_a_device_is_well(emulator_dir: Path) -> None:
    done = doctor(emulator_dir, "/bin/true", EMU_DEVICES="2")
    lines = [line.split(": ")[0].split() for line in done.stdout.splitlines()]
    assert ["OK", "driver"] in lines
    assert ["OK", "device", "0"] in lines
    assert ["OK", "device", "1"] in lines
    assert ["OK", "/bin/true"] in lines
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({"EMU_DRIVER_VERSION": "11020"}, "problem  driver: for CUDA 11.2: too old"),
        ({"EMU_DEVICES": "0"}, "problem  device: the driver answers 100: there is no device"),
        ({"ULMS_GPU_MEMORY": "none"}, "problem  options: ULMS_GPU_MEMORY=none is not accepted"),
        ({"ULMS_TRACE": "/no/such/folder/t"}, "problem  trace: /no/such/folder/t cannot be"),
    ],
)
def test_a_problem_is_told_and_the_exit_status_is_1(
    emulator_dir: Path, variables: dict[str, str], line: str
) -> None:
    done = doctor(emulator_dir, **variables)
    assert [found for found in done.stdout.splitlines() if found.startswith(line)] != []
    assert (done.returncode, done.stderr) == (1, "")


def test_an_older_driver_is_noted_and_no_problem(emulator_dir: Path) -> None:
    done = doctor(emulator_dir, EMU_DRIVER_VERSION="12030")
    assert "note     driver: for CUDA 12.3" in done.stdout
    assert done.returncode == 0


def test_a_driver_that_does_not_load_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")
    done = doctor(tmp_path)
    assert done.stdout.startswith("problem  driver: libcuda.so.1 cannot be used: ")
    assert done.returncode == 1
