"""`pump hooks`: the coverage page."""

import json
import shlex
import subprocess
import sys
from collections import Counter

import pytest

from pump import coverage, installed
from pump.cli import main
from pump.cli.hooks import Page, function_table
from pump.coverage import STATUSES, Function
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.unit


def test_the_page_counts_every_function_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = coverage.load()
    monkeypatch.setattr(installed, "folders", lambda _: [])
    assert main(["hooks"]) == 0
    out = capsys.readouterr().out
    for library, counts in coverage.totals(functions).items():
        (line,) = (line for line in out.splitlines() if line.split()[:1] == [library])
        expected = [counts[status] for status in STATUSES]
        assert list(map(int, line.split()[1:])) == [*expected, sum(expected)]
    assert "No driver, cuBLAS or cuDNN was found on this machine." in out


def test_every_function_has_a_known_status_and_a_reason_when_passed() -> None:
    functions = coverage.load()
    assert {function.status for function in functions} == set(STATUSES)
    assert [f.symbol for f in functions if f.status == "passed" and not f.why] == []
    assert [f.symbol for f in functions if f.status == "recorded" and f.why] == []
    twice = Counter((f.library, f.symbol) for f in functions)
    assert [symbol for symbol, times in twice.items() if times > 1] == []


def test_names_choose_whatever_their_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks", "--json", "culaunchkernel"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["symbol"] for row in rows} >= {"cuLaunchKernel", "cuLaunchKernelEx"}
    assert all("culaunchkernel" in row["symbol"].lower() for row in rows)
    assert main(["hooks", "cuMemAlloc_v2"]) == 0
    assert "accounted" in capsys.readouterr().out


def test_an_unknown_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks", "cuNonsense", "cuBother"]) == 2
    error = capsys.readouterr().err
    assert error == "pump: no function known is named like cuNonsense or cuBother\n"


def test_all_lists_every_function(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks", "--all"]) == 0
    words = set(capsys.readouterr().out.split())
    assert {function.symbol for function in coverage.load()} <= words


def test_what_was_seen_is_marked_and_alone_unless_all_is_asked_for() -> None:
    functions = [
        Function("cuda", name, name, 2000, "passed", "why not", ()) for name in ("cuOne", "cuTwo")
    ]
    page = Page(functions, {"cuTwo"})
    short = function_table(page, everything=False)
    assert [list(column.cells) for column in short.columns][:3] == [["*"], ["cuda"], ["cuTwo"]]
    long = function_table(page, everything=True)
    assert list(long.columns[0].cells) == ["", "*"]


def test_a_reader_that_leaves_early_is_no_error() -> None:
    pump = f"{shlex.quote(sys.executable)} -P -m pump hooks"
    for form in ("--all", "--json"):
        done = subprocess.run(
            ["bash", "-c", f"{pump} {form} | head -c 1"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        assert done.stderr == ""
