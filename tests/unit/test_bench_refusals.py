"""pump-bench: what it refuses, with which words and status."""

import pytest

from pump.bench import cli

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
        cli.main(["runn"])
    assert capsys.readouterr().err.endswith("; did you mean run?\n")
