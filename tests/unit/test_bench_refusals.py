"""pump-bench: what it refuses, with which words and status."""

import re

import pytest

from pump.bench import cli, machine
from pump.bench.run import device_of, names_of, runner, systems_of

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
