"""pump-bench: the command line."""

import argparse
from pathlib import Path

import pytest

from pump import paths
from pump.bench import cli, simulate
from pump.bench.row import read_results
from pump.bench.run import ratios_in, systems_of
from pump.predict.systems import EMULATOR, GPU, SIM, systems_on

pytestmark = [pytest.mark.unit, pytest.mark.slow]

SIMULATED = [system.name for system in systems_on(SIM)]


def test_run_prints_the_table_and_writes_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.json"
    words = ["run", "resnet50", "--device", "sim", "--system", "vmm", "--oversubscription", "2,4"]
    assert cli.main([*words, "--intervals", "0", "--json", str(out)]) == 0
    told = capsys.readouterr().out
    assert "oracle" in told
    written = read_results(out)
    assert [(r.system, r.oversubscription) for r in written.rows] == [("vmm", 2), ("vmm", 4)]
    assert all(f"{one.ms:.1f}" in told for one in written.rows)
    assert cli.main(["compare", str(out), str(out)]) == 0
    assert "0 of 2 runs became slower" in capsys.readouterr().out


def test_list_tells_workloads_and_systems(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--device", "sim"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in (*paths.traces(), *SIMULATED))


def test_without_a_command_it_plays_the_main_steps_where_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "best_device", lambda: SIM)
    words = cli.main_comparison()
    args = cli.PROGRAM.parser().parse_args(words)
    assert args.workloads == list(simulate.MAIN)
    assert set(simulate.MAIN) <= set(paths.traces())
    assert (args.device, args.plots) == (SIM, cli.FOLDER)
    assert all(name in cli.PROGRAM.description for name in simulate.MAIN)


def test_options_alone_are_of_the_main_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "best_device", lambda: GPU)

    def parsed(*words: str) -> argparse.Namespace:
        return cli.PROGRAM.parse(cli.with_command(words))

    args = parsed("--device", "sim", "--system", "um", "--plots", "out")
    assert (args.command.name, args.workloads) == ("run", list(simulate.MAIN))
    assert (args.device, args.system, args.plots) == (SIM, ["um"], Path("out"))
    args = parsed("--oversubscription", "3")
    assert (args.device, args.workloads) == (GPU, list(cli.ON_GPU))
    assert (args.oversubscription, args.plots) == ([3.0], cli.FOLDER)
    args = parsed("--device", "emulator")
    assert (args.device, args.workloads) == (EMULATOR, [])
    args = parsed("--device", "sim", "resnet50")
    assert (args.workloads, args.plots) == (["resnet50"], None)


def test_systems_and_ratios_are_said_with_commas_or_again() -> None:
    words = ["run", "--system", "vmm,um", "--system", "um-demand", "--device", "sim"]
    args = cli.PROGRAM.parse([*words, "--oversubscription", "2,3", "--oversubscription", "3,4"])
    assert systems_of(args, SIM) == ["um-demand", "um", "vmm"]
    assert ratios_in(args) == [2, 3, 4]
    args = cli.PROGRAM.parse(["run"])
    assert systems_of(args, SIM) == SIMULATED
    assert ratios_in(args) == [1.5, 2, 3]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "nothing", "--device", "sim"], "no workload nothing on sim"),
        (["run", "--system", "offload", "--device", "sim"], "no system offload on sim"),
        (["compare", "no.json", "no.json"], "no.json: No such file"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) in (1, 2)
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("text", ["0.5", "x", "2,,3"])
def test_ratios_below_one_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--oversubscription", text])
    assert "--oversubscription" in capsys.readouterr().err
