"""Files that commands write: whole, or not there; what cannot be written is named."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from pump import paths
from pump.bench import cli as bench
from pump.cli import main
from pump.whole import whole, write_whole

pytestmark = pytest.mark.unit

FULL = OSError(errno.ENOSPC, "No space left on device")
RESULT = Path(__file__).parents[2] / "bench" / "results" / "h200-readme.json"


def step() -> str:
    """A recorded step, which commands read."""
    return str(paths.traces()["hash-join"])


COMMANDS: dict[str, Callable[[str], int]] = {
    "cdi": lambda to: main(["cdi", "-o", to]),
    "export": lambda to: main(["trace", "export", step(), to]),
    "compress": lambda to: main(["trace", "compress", step(), to]),
    "bars": lambda to: bench.main(["table", str(RESULT), "--bars", to]),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("stops", [FULL, KeyboardInterrupt()], ids=["full", "interrupt"])
def test_a_command_that_stops_leaves_the_file_that_was_there(
    name: str,
    stops: BaseException,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The disk is full, or Ctrl-C comes, once the file is written to."""
    path = tmp_path / "out"
    path.write_text("old", encoding="utf-8")
    real = Path.open

    def stopping(self: Path, mode: str = "r", *rest: object, **more: object) -> object:
        opened = real(self, mode, *rest, **more)  # type: ignore[call-overload]
        if self.parent == tmp_path and mode.startswith("w"):
            opened.write("part" if "b" not in mode else b"part")
            opened.close()
            raise stops
        return opened

    monkeypatch.setattr(Path, "open", stopping)
    assert COMMANDS[name](str(path)) != 0
    monkeypatch.undo()
    assert path.read_text(encoding="utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    if stops is FULL:
        assert f"{path}: No space left on device" in capsys.readouterr().err


def test_what_is_no_file_is_written_to_itself(tmp_path: Path) -> None:
    write_whole(Path("/dev/null"), "text")
    with whole(Path("/dev/null")) as into:
        assert into == Path("/dev/null")
    link = tmp_path / "link"
    link.symlink_to("file")
    write_whole(link, "text")
    assert (link.is_symlink(), (tmp_path / "file").read_text(encoding="utf-8")) == (True, "text")
    with pytest.raises(FileNotFoundError) as told:
        write_whole(tmp_path / "no" / "file", "text")
    assert told.value.filename == str(tmp_path / "no" / "file")
