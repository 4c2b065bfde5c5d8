"""`pump run`: the environment and command it makes, and its errors."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pump import paths
from pump.cli import main, program
from pump.cli.trace import VERBS
from pump.preload import joined, preload
from pump.share import broker
from pump.sizes import GIB, MIB, format_size, parse_memory, parse_size, write_size
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.unit


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What `pump run --print` says for these arguments."""
    assert main(["run", "--print", *words]) == 0
    return capsys.readouterr().out.strip()


def test_every_option_becomes_its_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    numbers = ["--factor", "70", "--memory", "8GiB", "--backend", "observe"]
    words = ["--trace", "t.%p", "--stats", "--log", "INFO"]
    line = printed(capsys, *numbers, *words, "--", "python", "a b.py", "--memory", "x")
    assert line == (
        "env ULMS_GPU_MEMORY_FACTOR=70 ULMS_GPU_MEMORY=8GiB ULMS_BACKEND=observe ULMS_STATS=on"
        f" ULMS_LOG_LEVEL=INFO ULMS_TRACE={Path.cwd()}/t.%p LD_PRELOAD={paths.library()}"
        " python 'a b.py' --memory x"
    )


def test_nothing_given_sets_nothing_but_the_preload(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert printed(capsys, "--", "true") == f"env LD_PRELOAD={paths.library()} true"


@pytest.mark.parametrize(
    ("own", "words", "backend"),
    [
        (None, [], "ULMS_BACKEND=observe "),
        (None, ["--backend", "um"], "ULMS_BACKEND=um "),
        ("vmm", [], ""),
    ],
)
def test_a_trace_is_of_a_program_that_is_only_observed(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    own: str | None,
    words: list[str],
    backend: str,
) -> None:
    """Unless another backend is asked for."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.delenv("ULMS_BACKEND", raising=False)
    if own:
        monkeypatch.setenv("ULMS_BACKEND", own)
    assert main(["trace", "--print", *words, "-o", "t", "--", "true"]) == 0
    line = capsys.readouterr().out.strip()
    trace = f"ULMS_TRACE={Path.cwd()}/t"
    assert line.replace(backend, "") == f"env {trace} LD_PRELOAD={paths.library()} true"
    assert backend in line


def test_the_library_comes_before_what_is_preloaded_already_and_once() -> None:
    base = {"LD_PRELOAD": f"a.so b.so:{paths.library()}"}
    assert preload(["true"], {}, base=base).variables["LD_PRELOAD"] == (
        f"{paths.library()}:a.so:b.so"
    )
    assert joined("x", {}, "LD_PRELOAD") == "x"


def test_the_emulator_is_found_first() -> None:
    made = preload(["true"], {}, emulator=True, base={"LD_LIBRARY_PATH": "/elsewhere"})
    assert made.variables["LD_LIBRARY_PATH"] == f"{paths.emulator_dir()}:/elsewhere"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--factor", "101", "--", "true"], "--factor 101: a number from 0 to 100 is accepted"),
        (["--factor", "-1", "--", "true"], "--factor -1: a number from 0 to 100 is accepted"),
        (["--factor", "abc", "--", "true"], "--factor abc: a number from 0 to 100 is accepted"),
        (["--memory", "lots", "--", "true"], "--memory: `lots` is not a size"),
        (["--memory", "0", "--", "true"], "--memory: `0` is not a size"),
        (["--memory", "8", "--", "true"], "--memory: `8` would be bytes: write the unit, as in"),
        (["--share", "a,most=1", "--", "true"], "--share a,most=1: a setting named request, "),
        (["--share", "", "--", "true"], "--share : a name of letters, digits and ._-/"),
        (["--share", "\udcff", "--", "true"], "--share ?: a name of letters"),
        (
            ["--share", "a", "--backend", "OBSERVE", "--", "true"],
            "--share a: nothing is shared with the backend observe",
        ),
        (["--"], "no command"),
        ([], "no command"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert main(["run", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pump: {complaint}")
    assert error.count("\n") == 1


def test_what_the_environment_says_of_sharing_is_looked_at_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULMS_SHARE", "a,limit=2")
    assert main(["run", "--print", "--", "true"]) == 2
    assert capsys.readouterr().err.startswith("pump: ULMS_SHARE=a,limit=2: a part of GPU time ")
    monkeypatch.setenv("ULMS_SHARE", "a")
    monkeypatch.setenv("ULMS_BACKEND", "off")
    printed(capsys, "--", "true")
    assert main(["run", "--share", "a", "--print", "--", "true"]) == 2
    monkeypatch.setenv("ULMS_SHARE", "")
    printed(capsys, "--", "true")


def test_places_are_named_in_full(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ulms.so looks for them when CUDA starts, which may be in another folder."""
    here = Path.cwd()
    for name in ("TRACE", "STATS", "FILE_DIR"):
        monkeypatch.setenv(f"ULMS_{name}", f"./{name.lower()}-%p")
    monkeypatch.setenv("ULMS_SHARE_DIR", "meeting")
    for words in ([], ["--share", "a"]):
        line = printed(capsys, *words, "--", "true").split()
        assert f"ULMS_SHARE_DIR={here}/meeting" in line
        assert f"ULMS_TRACE={here}/trace-%p" in line
        assert f"ULMS_STATS={here}/stats-%p" in line
        assert f"ULMS_FILE_DIR={here}/file_dir-%p" in line
    assert broker.folder() == here / "meeting"
    monkeypatch.setenv("ULMS_STATS", "on")
    monkeypatch.setenv("ULMS_TRACE", "/tmp/t")
    told = printed(capsys, "--", "true")
    assert "ULMS_STATS" not in told
    assert "ULMS_TRACE" not in told


@pytest.mark.parametrize("words", [["nonsense"], ["run", "--backend", "vmn", "--", "true"], []])
def test_argparse_errors_have_status_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert all(f"\n    {command.name} " in told for command in program().commands)


STARTS = {
    *("pump", "pump.cli", "pump.frameworks", "pump.paths", "pump.preload", "pump.regular"),
    "pump.sizes",
    *("pump.terminal", "pump.terminal.command", "pump.terminal.hint", "pump.terminal.printable"),
    *("pump.terminal.program", "pump.terminal.status"),
}
"""Our modules that `pump run` needs."""


@pytest.mark.parametrize("words", [["run", "--print", "--", "true"], ["lib"]], ids=" ".join)
def test_a_program_is_started_by_what_that_needs_alone(words: list[str]) -> None:
    """Modules are counted, as a clock is not the same everywhere: NumPy, Rich, and asking for the
    installed version, each take as long as all that is needed.
    """
    needed = imported(*words)
    ours = {name for name in needed if name.split(".")[0] == "pump"}
    assert {name.split(".")[0] for name in needed - ours} <= sys.stdlib_module_names
    assert not {"dataclasses", "difflib", "importlib.metadata", "socket", "subprocess"} & needed
    assert ours <= {*STARTS, f"pump.cli.{words[0]}"}
    assert len(needed - ours) < 120


def imported(*words: str) -> set[str]:
    """All modules that Python imports for a command, beside those that it always does."""
    code = (
        "import sys; before = {*sys.modules}; from pump.cli import main; main(sys.argv[1:]);"
        " print(*{*sys.modules} - before, file=sys.stderr)"
    )
    command = [sys.executable, "-P", "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return {*done.stderr.split()}


def test_without_a_verb_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert all(f"\n    {verb} " in told.err for verb in VERBS)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["rum", "--", "true"], "run"),
        (["run", "--backend", "umm", "--", "true"], "um"),
        (["plan", "--gpu", "H20"], "H200"),
        (["sim", "x", "--link", "vm"], "vmm"),
    ],
)
def test_a_word_that_is_nearly_right_is_told(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith(f"; did you mean {meant}?\n")


def test_nearly_a_policy_or_a_verb_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for words, meant in ((["sim", "x", "--policy", "ahea"], "ahead"), (["trace", "shov"], "show")):
        assert main(words) == 2
        assert capsys.readouterr().err.endswith(f"; did you mean {meant}?\n")


@pytest.mark.parametrize(
    ("words", "usage"),
    [(["run"], "usage: pump run "), (["trace", "run"], "usage: pump trace run ")],
)
def test_a_misspelt_option_is_refused_by_its_command(
    words: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--fator", "3", "--", "true"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(usage)
    assert "--fator; did you mean --factor?" in error


def test_words_are_taken_in_any_case_as_the_variables_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = printed(capsys, "--log", "info", "--backend", "UM", "--", "true")
    assert "ULMS_BACKEND=um ULMS_LOG_LEVEL=INFO " in line


def test_what_stands_for_a_verb_and_is_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.ulms"
    trace.touch()
    assert main(["trace", str(trace)]) == 2
    assert f"`pump trace show {trace}` reads it" in capsys.readouterr().err
    assert main(["trace", "no-such-verb"]) == 2
    assert "no verb `no-such-verb`, and no program of that name" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="without /dev/full")
def test_output_that_cannot_be_written_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-P", "-m", "pump", "lib"]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
        )
    assert (done.returncode, done.stderr) == (1, "pump: No space left on device\n")


def pump(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "pump", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_program_replaces_the_launcher_and_keeps_its_status() -> None:
    done = pump("run", "--", "sh", "-c", 'echo "$LD_PRELOAD"; echo oops >&2; exit 7')
    assert done.returncode == 7
    assert done.stdout.split(":")[0].strip() == str(paths.library())
    assert done.stderr == "oops\n"


def test_a_missing_program_is_told_as_a_shell_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no program, as a script without its interpreter, is told to be one."""
    missing = pump("run", "--", "no-such-program-anywhere")
    assert (missing.returncode, missing.stderr) == (
        127,
        "pump: no-such-program-anywhere: No such file or directory\n",
    )
    plain = tmp_path / "text"
    plain.write_text("not a program")
    barred = pump("run", "--", str(plain))
    advice = "it is a file: name what runs it, as in `-- python {}`\n"
    told = f"pump: {plain}: Permission denied; {advice.format(plain)}"
    assert (barred.returncode, barred.stderr) == (126, told)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--", "text"]) == 127
    told = f"pump: text: No such file or directory; {advice.format('text')}"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 8 * GIB),
        ("8g", 8 * GIB),
        ("1.5 GiB", 3 * GIB // 2),
        ("512MB", 512 * MIB),
        ("1073741824", GIB),
        ("100 b", 100),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "8 apples", "-1", "0", "1e9", "GiB", "1..5G", "nan", "٣"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_memory_without_a_unit_is_at_least_a_mebibyte() -> None:
    """As ulms.so sees it, which warns (csrc/base/options.c)."""
    for text in ("8", "1.5", "24576", str(MIB - 1)):
        with pytest.raises(ValueError, match="would be bytes"):
            parse_memory(text)
    assert [parse_memory(text) for text in (str(MIB), "8B", "8 b", "1.5k")] == [MIB, 8, 8, 1536]


@given(st.integers(1, (1 << 44) - 1))
def test_sizes_are_written_to_be_read(size: int) -> None:
    assert parse_size(write_size(size)) == parse_size(write_size(size << 20)) >> 20 == size


def test_sizes_are_written() -> None:
    assert [format_size(n) for n in (0, 1023, 1024, 1536 * MIB, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 GiB",
        "3.0 TiB",
    ]
