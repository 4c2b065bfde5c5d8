"""GPUs, links and costs, as `pump plan` has them."""

import re
from pathlib import Path

import pytest

from pump.bench.machine import figure_in
from pump.bench.row import read_results
from pump.cli import main
from pump.paths import traces
from pump.sim.hardware import GPUS, INTERCONNECTS, REFERENCE, link_over
from pump.sim.link import FIGURES, LINKS, UM

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
DOCUMENTS = {gpu.source for gpu in GPUS.values()} | {link.source for link in INTERCONNECTS.values()}


def test_the_link_that_was_measured_is_as_it_was_measured() -> None:
    for link in LINKS.values():
        assert link_over(INTERCONNECTS[REFERENCE.interconnect], link) == link


def test_half_the_raw_rate_is_half_of_everything() -> None:
    half = link_over(INTERCONNECTS["pcie4-x16"], UM)
    assert (half.rate_in, half.rate_out, half.rate_both, half.rate_fault) == (20, 21, 26, 4.5)
    assert half.ordered
    assert half.ordered.rate_out == 6.5
    assert (half.rate_read, half.rate_update) == (25.5, 21)
    assert half.call_ns == UM.call_ns
    assert link_over(INTERCONNECTS["nvlink-c2c"], UM).rate_fault == UM.rate_fault


def test_gpus_name_links_that_there_are() -> None:
    assert {gpu.interconnect for gpu in GPUS.values()} <= set(INTERCONNECTS)


def test_links_say_where_predictions_are_compared_and_no_figure_of_their_own() -> None:
    page = ROOT / "docs" / "bench.md"
    headings = page.read_text(encoding="utf-8").splitlines()
    for link in LINKS.values():
        named = re.search(r'docs/bench.md, "(.*?)"', link.note)
        assert named
        assert f"## {named[1]}" in headings
        assert not re.search(r"\d\.\d", link.note)


def test_every_document_is_named() -> None:
    for source in DOCUMENTS:
        assert re.fullmatch(r"NVIDIA .+ (data sheet|white paper)", source)


def test_results_that_figures_are_from_are_there() -> None:
    """And have the rates of copies that they are named for, to the digits that are told."""
    for name, row in FIGURES.items():
        for file in re.findall(r"bench/results/\S+?\.json", row.source):
            assert (ROOT / file).is_file()
            told = {key for key in ("link_in", "link_out", "link_both") if key in row.source}
            machine = read_results(ROOT / file).machine if told else {}
            rates = {key: round(figure_in(machine[key]), 1) for key in told}
            assert all(str(rate) in row.source for rate in rates.values())
            agrees = all(round(rate) == row.value for rate in rates.values())
            assert agrees == ("not kept" not in row.source), name
    assert "h200-vmm-systems.json" in FIGURES["vmm.copy"].source
    assert "not kept" in FIGURES["vmm.both"].source


def test_only_an_h200_s_own_link_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    (trace,) = (path for name, path in traces().items() if name == "hash-join")
    share = "the share measured on an H200's link, 55 of 64 GB/s"
    for words, taken in (
        (["--memory", "1MiB"], False),
        (["--gpu", "H200"], False),
        (["--gpu", "H100"], True),
        (["--gpu", "RTX-5090"], True),
        (["--gpu", "L4"], True),
        (["--link", "pcie4-x16"], True),
    ):
        assert main(["plan", str(trace), "--memory", "1MiB", *words]) == 0
        told = capsys.readouterr().out
        assert (share in told) == taken
        assert ("measured: 55 of 64 GB/s" in told) != taken


def test_hardware_is_listed_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--hardware"]) == 0
    told = capsys.readouterr().out
    sources = DOCUMENTS | {row.source for row in FIGURES.values()}
    assert all(name in told for name in (*GPUS, *INTERCONNECTS, *FIGURES, *sources))
