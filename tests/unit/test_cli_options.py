"""`pump options`: one table of rows, printed in every form."""

import re

import pytest

from pump.binding import Option, option_rows, version
from pump.cli import main
from pump.cli.options import manual_page
from pump.cli.run import BACKENDS, LOG_LEVELS

pytestmark = pytest.mark.unit


def row(name: str) -> Option:
    """The option of a name."""
    (found,) = (option for option in option_rows() if option.name == name)
    return found


def test_every_form_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ([], ["--markdown"], ["--man"]):
        assert main(["options", *form]) == 0
        out = capsys.readouterr().out.replace("\\", "")
        for option in option_rows():
            assert option.name in out
            assert all(alias in out for alias in option.aliases)
            assert option.accepts in out


def test_the_manual_page_keeps_dashes_and_starts_no_line_with_a_dot() -> None:
    option = Option("ULMS_X", (), "a-b", "a-b or .c", ".starts with a dot")
    page = manual_page([option])
    assert "a\\-b or .c" in page
    assert [line for line in page.splitlines() if re.match(r"\.(?![A-Z]{1,2} |TP$)", line)] == []


def test_the_flags_of_pump_run_accept_what_the_options_accept() -> None:
    for name, choices in (("ULMS_BACKEND", BACKENDS), ("ULMS_LOG_LEVEL", LOG_LEVELS)):
        words = re.split(r", | or ", row(name).accepts)
        assert tuple(words) == choices


def test_library_and_package_have_one_version() -> None:
    import pump

    assert version() == pump.__version__
