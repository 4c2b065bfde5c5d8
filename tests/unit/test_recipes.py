"""docs/recipes.md claims no more than what was run: every version is in one table, and every step
of it in a result file.
"""

import re

import pytest

from bench import tested
from pump.bench.row import read_results
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
ROWS = tested.tested()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_version_is_that_of_steps_that_a_gpu_ran(row: tested.Tested) -> None:
    if not row.version:
        assert (row.file, row.steps) == ("", ())
        return
    found = read_results(tested.RESULTS / row.file)
    assert found.machine["gpu"].startswith("NVIDIA")
    for step in row.steps:
        systems = {each.system for each in found.rows if each.workload == step}
        assert systems >= {"native", "um", "vmm"}, step
        assert all(each.device == "gpu" and each.numbers_equal for each in found.rows)


def test_the_page_has_no_version_of_its_own() -> None:
    own = re.sub(r"<!-- printed.*?<!-- end -->", "", PAGE, flags=re.DOTALL)
    assert re.findall(r"\d+\.\d+", own) == []


def test_every_recipe_is_in_the_table() -> None:
    recipes = re.findall(r"^\| ([\w.: ]+)(?:, [\w ]+)* \| ", PAGE.partition("## ")[0], re.M)
    names = " ".join(row.name for row in ROWS)
    assert len(recipes) > 10
    assert [name for name in recipes if name.partition(":")[0] not in names] == ["with"]


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= 450
