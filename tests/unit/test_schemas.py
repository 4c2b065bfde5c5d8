"""The schemas in docs/: they are what the code says, and files of their kinds conform."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomllib
from jsonschema import Draft202012Validator

from bench import schemas
from pump.bench.row import FORMAT
from tests.conftest import ROOT
from tests.unit.test_broker_config import WRONG

pytestmark = pytest.mark.unit

PUBLISHED = sorted((ROOT / "docs").glob("*.schema.json"))
RESULTS = sorted((ROOT / "bench" / "results").glob("*.json"))


def schema(name: str) -> Draft202012Validator:
    """As it is published."""
    path = ROOT / "docs" / f"{name}.schema.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(told)
    return Draft202012Validator(told)


def test_the_files_are_what_the_code_says() -> None:
    made = {f"{name}.schema.json": schemas.text(one) for name, one in schemas.schemas().items()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in PUBLISHED}
    assert kept == made, "python -m bench.schemas"


def test_every_result_conforms() -> None:
    results = schema("results")
    every: list[dict[str, Any]] = [json.loads(path.read_bytes()) for path in RESULTS]
    told = [one for one in every if one.get("format") == FORMAT]
    assert len(told) > 8
    assert [next(results.iter_errors(one), None) for one in told] == [None] * len(told)
    del told[0]["rows"][0]["step_ms"]
    assert not results.is_valid(told[0])


@pytest.mark.parametrize("path", ["docs/sharing.md", "deploy/kubernetes/shares.toml"])
def test_a_configuration_that_is_shown_conforms(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    if Path(path).suffix == ".md":
        (text,) = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.DOTALL)
    else:
        text = re.sub(r"^# (\[\w+\]|\w+ = .*)$", r"\1", text, flags=re.M)
    settings = tomllib.loads(text)
    assert "train" in settings
    schema("shares").validate(settings)


def test_what_the_broker_refuses_does_not_conform() -> None:
    """As far as it is TOML, and not a matter of how many there are."""
    refused = 0
    for text, why in WRONG.items():
        try:
            settings = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
        if settings and "more than" not in why and "MinUtil" not in text:
            assert not schema("shares").is_valid(settings), text
            refused += 1
    assert refused > 7


def test_it_has_every_setting_of_the_broker() -> None:
    told = schema("shares").schema["$defs"]
    groups = re.findall(r'strcmp\(key, "(\w+)"\) == 0\) {', (ROOT / "share/settings.c").read_text())
    every = re.findall(
        r'strcmp\(key, "([a-z]+)"\) [!=]= 0\)', (ROOT / "broker/config.c").read_text()
    )
    assert set(told["Group"]["properties"]) == set(groups)
    assert set(told["Shares"]["properties"]) == set(every)
