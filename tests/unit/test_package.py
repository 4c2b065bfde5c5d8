"""The package as it is installed: one wheel with everything in it, found wherever it lies."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from readme_renderer import markdown

import pump
from pump import paths
from pump.bench.cli import main
from tests.conftest import PATIENCE_S, made_once

pytestmark = [pytest.mark.unit, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BUILD_DIR = os.environ.get("PUMP_BUILD_DIR", "")
COMPILED = {
    "pump/ulms.so",
    "pump/emulator/libcuda.so.1",
    "pump/emulator/libnvidia-ml.so.1",
    "pump/names.json",
    "pump/_policy.py",
    "pump/_share.py",
    "pump/_ulms.py",
    "pump/libpolicy.so",
    "pump/ulms-broker",
}


@pytest.fixture(scope="session")
def wheel(common_folder: Path) -> Path:
    """A wheel of this tree, from the build that is already there."""
    if not BUILD_DIR:
        pytest.skip("PUMP_BUILD_DIR is not set: run by `make test`")
    (made,) = made_once(common_folder / "wheel", build_wheel).iterdir()
    return made


def build_wheel(out: Path) -> None:
    settings = (f"build-dir={BUILD_DIR}", "cmake.define.ULMS_TESTS=ON")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    command += [f"--config-settings={setting}" for setting in settings]
    built = subprocess.run(
        [*command, "--no-index", "--wheel-dir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr


def test_one_wheel_serves_every_python_and_holds_all_parts(wheel: Path) -> None:
    assert re.fullmatch(r"ulms-[0-9.]+-py3-none-linux_\w+\.whl", wheel.name)
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= COMPILED | {"pump/py.typed", "pump/cli/__init__.py"}
    stray = [
        name for name in names if "_build_ulms" in name or not name.startswith(("pump/", "ulms-"))
    ]
    assert stray == []


@pytest.fixture
def page(wheel: Path) -> str:
    """What an index shows."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    fields, _, page = archive.read(name).decode().partition("\n\n")
    assert "Description-Content-Type: text/markdown" in fields.splitlines()
    return page


def test_an_index_shows_no_link_into_the_repository(page: str) -> None:
    assert page.lstrip().startswith("# PUMP\n")
    assert re.findall(r"\]\((?!https?:)[^)]*\)|<!--", page) == []


def test_an_index_renders_the_page(page: str) -> None:
    """As the Python index does: with every table, heading and block of code."""
    shown = markdown.render(page)
    assert shown
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.M | re.DOTALL)
    assert shown.count("<table>") == len(re.findall(r"^\|[-|]+\|$", prose, re.M)) > 3
    assert shown.count("<h2") == len(re.findall(r"^## ", prose, re.M)) > 8
    assert shown.count("<pre") == page.count("```") // 2 > 2
    assert not re.search(r"^\||\*\*|```", shown, re.M)
    assert "──▶" in shown


def test_the_parts_are_found_in_a_wheel_install(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(target)
    # -S leaves out the hooks of an editable install; the packages stay importable by path.
    where = [str(target), *(str(Path(entry).absolute()) for entry in sys.path if entry)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(where)}
    for word, part in (("lib", "ulms.so"), ("lib --emulator", "emulator")):
        told = subprocess.run(
            [sys.executable, "-S", "-P", "-m", "pump", *word.split()],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert told.stdout.strip() == str(target.resolve() / "pump" / part)


def test_recorded_steps_are_told_to_lie_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "checkout", lambda: None)
    monkeypatch.chdir(tmp_path)
    assert main(["list", "--device", "sim"]) == 1
    assert "recorded steps lie in PUMP's sources" in capsys.readouterr().err
    assert main(["list", "--device", "emulator"]) == 2
    assert "run `pump-bench` there" in capsys.readouterr().err


def test_an_installed_package_finds_them_where_it_is_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paths, "checkout", lambda: None)
    monkeypatch.chdir(ROOT / "docs")
    assert main(["list", "--device", "sim"]) == 0
    assert "resnet50" in capsys.readouterr().out


def test_the_parts_are_found_in_this_install() -> None:
    for part in sorted(COMPILED - {"pump/_policy.py", "pump/_share.py", "pump/_ulms.py"}):
        path = paths.installed(part.removeprefix("pump/"))
        assert path.is_file()
    assert paths.library().name == "ulms.so"
    assert (paths.emulator_dir() / "libnvidia-ml.so.1").is_file()


def test_a_missing_part_is_told_in_words() -> None:
    with pytest.raises(paths.NotBuiltError, match=r"^nothing\.so is not built: run `make`"):
        paths.installed("nothing.so")


def test_ulms_so_needs_nothing_but_the_c_library() -> None:
    dynamic = subprocess.run(
        ["readelf", "-d", str(paths.library())], capture_output=True, text=True, check=True
    ).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
    assert "RPATH" not in dynamic
    assert "RUNPATH" not in dynamic


def test_the_version_is_told_once() -> None:
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", pump.__version__)
    assert f'version = "{pump.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_the_changelog_tells_of_this_version() -> None:
    page = (ROOT / "CHANGELOG.md").read_text()
    assert next(re.finditer(r"^## \[([0-9.]+)\]", page, re.M))[1] == pump.__version__
