"""What a visitor of the repository meets: SECURITY.md, recipes and forms for issues name what is
there.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml

from pump.binding import option_rows
from pump.cli import PLACES, main
from pump.cli.run import BACKENDS
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

SECURITY = ROOT / "SECURITY.md"
RECIPES = ROOT / "docs" / "recipes.md"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
KINDS = {"textarea", "input", "dropdown", "checkboxes"}
VERBS = ("trace", "share")
NO_WHEELS = ("argparse-manpage",)


def form(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def fields(path: Path) -> dict[str, dict[str, Any]]:
    """What is asked for, by its id."""
    asked = [item for item in form(path)["body"] if item["type"] != "markdown"]
    assert {item["type"] for item in asked} <= KINDS
    found = {item["id"]: item for item in asked}
    assert len(found) == len(asked)
    return found


def test_security_is_short_and_its_tests_exist() -> None:
    page = SECURITY.read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = set(re.findall(r"^def (test_\w+)\(", "\n".join(tests), re.M))
    assert len(page.split()) < 300
    assert len(named) > 8
    assert named <= there


def test_there_is_a_form_for_a_bug_and_one_for_what_is_slow() -> None:
    assert [path.name for path in FORMS] == ["bug.yml", "slow.yml"]
    bug, slow = map(fields, FORMS)
    assert bug["backend"]["attributes"]["options"] == [b for b in BACKENDS if b != "auto"]
    for asked, needed in (bug, {"doctor", "log"}), (slow, {"doctor", "trace"}):
        assert needed <= {name for name, item in asked.items() if item.get("validations")}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_what_it_must_have(path: Path) -> None:
    assert set(form(path)) == {"name", "description", "body"}
    for item in form(path)["body"]:
        assert set(item) <= {"type", "id", "attributes", "validations"}
        assert item["attributes"]["value" if item["type"] == "markdown" else "label"]


@pytest.mark.parametrize("path", [*FORMS, SECURITY, RECIPES], ids=lambda path: path.name)
def test_commands_and_options_that_are_named_exist(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = path.read_text(encoding="utf-8")
    commands = re.findall(r"\bpump (\w+[^`\n]*)", text)
    assert commands
    for words in (command.split(" -- ")[0].split() for command in commands):
        verb = words[: 2 if words[0] in VERBS else 1]
        assert verb[0] in PLACES
        with pytest.raises(SystemExit, match=r"^0$"):
            main([*verb, "--help"])
        told = capsys.readouterr().out
        wanted = [word for word in words if word.startswith("-")]
        assert [word for word in wanted if not re.search(rf"(^|\s|\[){word}\b", told)] == []
    assert set(re.findall(r"\bULMS_\w+\w", text)) <= {row.name for row in option_rows()}


def test_what_is_needed_without_a_registry_is_what_pyproject_says() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = data["project"]
    extras = project["optional-dependencies"]
    (tests,) = re.findall(r"requirements\.py ([a-z ]+) >", page)
    (others,) = re.findall(r"-r wheels\.txt (.*)", page)
    needed = [*data["build-system"]["requires"], *project["dependencies"]]
    names = {re.split("[<=>]", each)[0] for each in needed}
    assert set(tests.split()) <= set(extras)
    fetched = [name for extra in tests.split() for name in extras[extra]]
    assert not [name for name in fetched if name.startswith(NO_WHEELS)], "--only-binary lacks it"
    assert set(others.split()) == names - {"numpy"}


def test_extras_need_what_the_page_says() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    rows = re.findall(r"^\| `ulms\[(\w+)\]` \| .* \| (.*) \|$", page, re.M)
    told = {extra: set(needs.lower().split(", ")) for extra, needs in rows}
    wanted = {extra: {re.split("[<=>]", each)[0] for each in extras[extra]} for extra in told}
    assert len(told) > 2
    assert told == wanted
