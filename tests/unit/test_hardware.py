"""GPUs, links and costs, as `pump plan` has them."""

import re
from pathlib import Path

import pytest

from pump.cli import main
from pump.sim.hardware import GPUS, INTERCONNECTS, REFERENCE, link_over, slower
from pump.sim.link import FIGURES, LINKS, UM

pytestmark = pytest.mark.unit


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
    assert slower(REFERENCE) == 1
    assert slower(GPUS["L4"]) == pytest.approx(16)


def test_links_say_where_predictions_are_compared_and_no_figure_of_their_own() -> None:
    page = Path(__file__).parents[2] / "docs" / "bench.md"
    headings = page.read_text(encoding="utf-8").splitlines()
    for link in LINKS.values():
        named = re.search(r'docs/bench.md, "(.*?)"', link.note)
        assert named
        assert f"## {named[1]}" in headings
        assert not re.search(r"\d\.\d", link.note)


def test_hardware_is_listed_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--hardware"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in (*GPUS, *INTERCONNECTS, *FIGURES, "data sheet", "measured"))
