"""pump-bench: what it refuses, with which words and status."""

import re

import pytest

from pump.bench import cli, machine
from pump.bench.run import device_of, names_of, runner, systems_of
from pump.predict.yardstick import INTERVALS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "no.json", "no.json"],
        ["bound", "no.json"],
        ["run", "--device", "gpu", "--elsewhere", "no.json"],
    ],
)
def test_a_missing_file_is_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert capsys.readouterr().err == "pump-bench: no.json: No such file or directory\n"


def test_nearly_a_system_or_a_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--device", "sim", "--system", "vm"]) == 2
    assert capsys.readouterr().err.endswith("; did you mean vmm?\n")
    with pytest.raises(SystemExit):
        cli.main(["rum"])
    assert capsys.readouterr().err.endswith("; did you mean run?\n")


def test_where_there_is_no_gpu_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the limit, which is for those that have one."""
    monkeypatch.delenv("ULMS_MANAGED_LIMIT", raising=False)
    words = ["run", "resnet50", "--device", "gpu"]
    for found, why in ((False, "there is no GPU here"), (True, "set ULMS_MANAGED_LIMIT to 8GiB")):
        monkeypatch.setattr(machine, "has_gpu", lambda found=found: found)
        assert cli.main(words) == 2
        assert capsys.readouterr().err.startswith(f"pump-bench: {why}")


def test_help_has_an_example_that_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    told = capsys.readouterr().out
    assert "`pump-bench list` has workloads and systems" in " ".join(told.split())
    (example,) = re.findall(r"`pump-bench (run .*?)`", " ".join(told.split()))
    args = cli.PROGRAM.parse(example.split())
    device = device_of(args)
    assert names_of(args, runner(device, 0), device) == args.workloads
    assert set(systems_of(args, device)) == set(args.system)


@pytest.mark.parametrize(
    "option",
    [["--limit", "9"], ["--rounds", "2"], ["--resume"], ["--elsewhere", "a.json"], ["--tiny"]],
)
def test_options_of_programs_are_refused_elsewhere(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "nothing", "--device", "sim", *option]) == 2
    assert capsys.readouterr().err == f"pump-bench: {option[0]} is for --device gpu\n"


def test_an_option_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--system", "um,"])
    assert capsys.readouterr().err.endswith("--system: `um,`: write names, like um,vmm\n")


def test_a_command_behind_its_options_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--device", "sim", "list"])
    assert capsys.readouterr().err.endswith("error: `list` comes before its options\n")


def test_intervals_say_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "stretches that a step is cut into for the bound" in told
    assert f"0: no bound (default: {INTERVALS})" in told
