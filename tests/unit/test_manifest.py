"""What a checkpoint says of itself, and damage of every kind."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pump import manifest
from pump.manifest import NAME, ManifestError

pytestmark = pytest.mark.unit

FACTS = {"pump": "1", "pids": [1, 2]}
CONTENT = {"images/pages": bytes(range(256)) * 40, "images/empty": b"", "more": b"x"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole checkpoint."""
    monkeypatch.setattr(manifest, "PIECE_BYTES", 4000)
    made = tmp_path / "made"
    for name, content in CONTENT.items():
        (made / name).parent.mkdir(exist_ok=True, parents=True)
        (made / name).write_bytes(content)
    manifest.write(made, FACTS, lambda _: None)
    return made


def verified(folder: Path) -> dict[str, Any]:
    found = manifest.read(folder)
    manifest.verify(folder, found, lambda _: None)
    return found


def test_it_says_what_it_was_told(folder: Path) -> None:
    found = verified(folder)
    assert FACTS.items() <= found.items()
    assert {name: row[0] for name, row in found["files"].items()} == {
        name: len(content) for name, content in CONTENT.items()
    }


def test_all_bytes_are_told(folder: Path) -> None:
    told: list[int] = []
    manifest.verify(folder, manifest.read(folder), told.append)
    assert sum(told) == manifest.size(folder / "images") + 1


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_that_is_gone(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ManifestError, match=rf"is damaged: {name}: No such file"):
        verified(folder)


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_of_another_length(folder: Path, name: str) -> None:
    (folder / name).write_bytes(CONTENT[name] + b"1")
    was = len(CONTENT[name])
    with pytest.raises(ManifestError, match=rf"{name} has {was + 1} bytes, and had {was}"):
        verified(folder)


def test_each_piece_has_a_sum(folder: Path) -> None:
    files = manifest.read(folder)["files"]
    whole = CONTENT["images/pages"]
    pieces = [whole[at : at + 4000] for at in range(0, len(whole), 4000)]
    assert files["images/pages"][1] == [hashlib.sha256(piece).hexdigest() for piece in pieces]
    assert files["images/empty"] == [0, []]


@pytest.mark.parametrize("at", [0, 5000, len(CONTENT["images/pages"]) - 1])
def test_a_byte_that_is_another_one(folder: Path, at: int) -> None:
    changed = bytearray(CONTENT["images/pages"])
    changed[at] ^= 1
    (folder / "images/pages").write_bytes(changed)
    with pytest.raises(ManifestError, match="images/pages has another content"):
        verified(folder)


def test_its_own_text_is_cut_off_anywhere(folder: Path) -> None:
    """Or one letter of it is another one."""
    text = (folder / NAME).read_text()
    for at in range(len(text.rstrip()) - 1):
        (folder / NAME).write_text(text[:at])
        with pytest.raises(ManifestError, match="is damaged"):
            manifest.read(folder)


def test_its_own_text_is_another_one(folder: Path) -> None:
    text = (folder / NAME).read_text()
    for old, new in ("[\n  1,", "[\n  3,"), ("10240", "10241"), ("more", "mora"):
        assert old in text
        (folder / NAME).write_text(text.replace(old, new))
        with pytest.raises(ManifestError, match="is damaged"):
            manifest.read(folder)


@pytest.mark.parametrize("text", ["[]", "{}", "1", "[" * 100_000, '{"format": "1"}', "\udc80"])
def test_it_is_something_else(folder: Path, text: str) -> None:
    (folder / NAME).write_text(text, errors="surrogateescape")
    with pytest.raises(ManifestError, match="is damaged"):
        manifest.read(folder)


def test_another_format_is_refused(folder: Path) -> None:
    found = json.loads((folder / NAME).read_text())
    (folder / NAME).write_text(json.dumps(found | {"format": 2}))
    with pytest.raises(ManifestError, match="has format 2, and this version of pump reads 1"):
        manifest.read(folder)


def test_a_pipe_in_its_place_is_not_waited_for(folder: Path) -> None:
    (folder / NAME).unlink()
    os.mkfifo(folder / NAME)
    with pytest.raises(ManifestError, match=r"is no checkpoint: .* is no regular file"):
        manifest.read(folder)


def test_a_folder_without_it_is_none(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=rf"is no checkpoint: {NAME}: No such file"):
        manifest.read(tmp_path)
