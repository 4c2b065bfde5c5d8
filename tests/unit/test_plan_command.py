"""`pump plan`: what it prints and draws, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from pump import paths
from pump.cli import main
from pump.predict import plan, plots
from pump.sim.link import UM
from pump.sim.recorded import open_sequence
from pump.sim.sequence import SequenceError

pytestmark = [pytest.mark.unit, pytest.mark.slow]

PAGE = UM.page_bytes


def test_what_is_neither_sequence_nor_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\0" * 100)
    with pytest.raises(SequenceError, match="neither"):
        open_sequence(tmp_path / "x")


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """A file with 40 pages that take turns."""
    lines = ["pump-sequence 1"]
    lines += [f"block {i} {i * PAGE:x} {PAGE:x}" for i in range(40)]
    lines += ["live " + " ".join(map(str, range(40))), "step"]
    lines += [f"o {i} 100000 {i}u" for i in range(40)]
    path = tmp_path / "turns.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_command_tells_its_assumptions_and_draws(
    step: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = step.with_suffix(".png")
    words = ["plan", str(step), "--gpu", "L4", "--memory", "40MiB", "--backend", "vmm"]
    draws = ["--plot", str(picture)] if plots.can_plot() else []
    assert main([*words, *draws]) == 0
    told = capsys.readouterr().out
    assert "pcie4-x16: 32 GB/s each way (NVIDIA A100 Tensor Core GPU data sheet: " in told
    assert "16 times as long as on an H200 if memory bounds them and 8.2 and 2.2 times" in told
    assert "The bytes that they touch alone take 0.3 ms (NVIDIA L4 " in told
    assert "4.0 to 64.0 ms a step where everything fits" in told
    assert re.search(r"90 % +36.0 MiB +\d+ to \d+ *\n", told)
    assert "vmm ms" in told
    assert "um ms" not in told
    assert not draws or picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not plots.can_plot(), reason="without matplotlib")
@pytest.mark.usefixtures("few")
def test_less_memory_is_drawn_of_what_fits(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = step.with_suffix(".png")
    words = ["plan", str(step), "--gpu", "L4", "--backend", "um", "--plot", str(picture)]
    assert main(words) == 0
    told = capsys.readouterr()
    assert told.out.endswith("run it as it is, nothing has to move.\n")
    assert "playing the step with 1 budgets" in told.err  # of FEW_SHARES one is less than it needs
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_asks_for_no_promise_where_all_kernels_are_trusted(
    step: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = step.read_text(encoding="utf-8")
    step.write_text(text.replace("\n", "\ntrusted\n", 1), encoding="utf-8")
    assert main(["plan", str(step), "--memory", "40MiB"]) == 0
    told = capsys.readouterr().out
    assert "vmm ms" in told
    assert "vmm-known ms" not in told
    assert "ULMS_HIDDEN" not in told
    assert "promise" not in told


@pytest.mark.parametrize(
    ("name", "took"), [("decode-3b", "5.4 ms, and the traced step took 18.2"), ("prefill-3b", None)]
)
def test_a_traced_step_that_took_longer_than_its_operations_is_told(
    name: str, took: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", str(paths.traces()[name]), "--memory", "400GiB", "--backend", "um"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert ("--step-ms" in said) == bool(took)
    assert not took or took in said
    assert main([*words, "--step-ms", "50"]) == 0
    said = capsys.readouterr().out
    assert "--step-ms" not in said
    assert "50.0 ms a step where everything fits" in said


def test_the_step_that_was_found_is_told(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(step), "--memory", "1GiB"]) == 0
    told = capsys.readouterr()
    assert "step: 40 operations, seen once" in told.out


def test_off_a_terminal_it_says_how_much_it_plays_and_for_how_long(
    step: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "FACTORS", (60, 50, 40, 30))
    assert main(["plan", str(step), "--memory", "40MiB", "--backend", "um"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "pump: playing the step with 4 budgets"
    assert re.fullmatch(r"pump: 1 are played after \d+ s: about \d+ s more", second)


@pytest.mark.usefixtures("few")
def test_an_operation_larger_than_the_memory_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(paths.traces()["hash-join"]), "--memory", "768MiB"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"100 % +768.0 MiB +\(over\) +110.6 ", told)
    assert "(over): um had more resident than that" in told
    assert "One operation alone touches 1.9 GiB" in told
    assert "Use vmm: " in told


def test_less_than_a_page_is_told_in_words(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(step), "--memory", "2MiB"]) == 0
    told = capsys.readouterr()
    assert "Not predicted: 90 % of the memory is less than a page." in told.out
    assert "no page" in told.out
    assert main(["plan", str(step), "--memory", "1MiB"]) == 0
    told = capsys.readouterr()
    assert "Not predicted" in told.out
    assert "factor" not in told.out
    assert "playing" not in told.err


def test_what_fits_is_told_at_once(
    step: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "results", None)  # nothing is played
    assert main(["plan", str(step), "--gpu", "L4"]) == 0
    told = capsys.readouterr()
    *_, verdict, hint = told.out.splitlines()
    assert verdict == ("It fits, with 23.9 GiB to spare: run it as it is, nothing has to move.")
    assert "--memory" in hint
    assert "factor" not in told.out
    assert not told.err


def test_a_step_that_leaves_most_memory_alone_is_doubted(
    step: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = step.read_text(encoding="utf-8").splitlines()
    step.write_text("\n".join(lines[:-25]) + "\n", encoding="utf-8")
    assert main(["plan", str(step), "--memory", "40MiB"]) == 0
    assert "the step touches 30.0 MiB of 80.0 MiB held at a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["plan", "--memory", "6GiB", "--backend", "um"], ["sim", "--policy", "pump", "--over", "2"]],
)
@pytest.mark.usefixtures("few")
def test_what_is_lost_of_a_trace_is_told(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where no step can be had of what is left."""
    data = paths.traces()["decode-3b"].read_bytes()
    cut = tmp_path / "cut.ulms.gz"
    for share, status in ((0.8, 0), (0.2, 2)):
        cut.write_bytes(data[: int(share * len(data))])
        assert main([command[0], str(cut), *command[1:]]) == status
        assert "the compressed file is cut off" in capsys.readouterr().err


@pytest.mark.usefixtures("few")
def test_the_prediction_as_json(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", str(step), "--gpu", "H100", "--memory", "40MiB", "--backend", "vmm", "--json"]
    assert main(words) == 0
    predicted = json.loads(capsys.readouterr().out)
    assert (predicted["memory"], predicted["footprint"]) == (20 * PAGE, 40 * PAGE)
    assert set(predicted["factors"]) == {str(factor) for factor in plan.FACTORS}
    assert 4 <= predicted["native_ms"] < 4.1 < 5.7 < predicted["most_native_ms"] < 5.8
    point = predicted["factors"]["100"]["vmm"]
    assert predicted["native_ms"] < point["step_ms"] < point["most_ms"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "plan needs a TRACE"),
        (["--memory", "1GiB"], "plan needs a TRACE"),
        ([__file__], "plan needs a TRACE, and --memory or --gpu"),
        (["no.txt"], "no.txt: No such file or directory"),
    ],
)
def test_wrong_usage(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file comes before a missing option."""
    assert main(["plan", *words]) == 2
    assert f"pump: {why}" in capsys.readouterr().err


def test_memory_without_a_unit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["plan", "no.txt", "--memory", "6"])
    assert stop.value.code == 2
    assert "--memory: `6` would be bytes: write the unit, as in 8GiB" in capsys.readouterr().err


@pytest.mark.skipif(not plots.can_plot(), reason="without matplotlib")
@pytest.mark.parametrize(
    ("picture", "why"), [("p.foo", "its name must end in one of"), ("no/p.png", "no such folder")]
)
def test_a_picture_that_cannot_be_drawn_is_refused_first(
    picture: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is read before: there is no such trace."""
    words = ["plan", str(tmp_path / "none.txt"), "--memory", "1GiB"]
    assert main([*words, "--plot", str(tmp_path / picture)]) == 2
    assert why in capsys.readouterr().err
