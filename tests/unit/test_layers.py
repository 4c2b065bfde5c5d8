"""The layers of `csrc`: what each folder includes, held against the table of ARCHITECTURE.md."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"
ROW = re.compile(r"^\| `csrc/(\w+)` \|[^|]*\| ([^|]*) \|$", re.M)
ABOVE = "all above but "
GENERATED = {"driver.h", "library.h", "cuda/", "nvml/", "cublas/", "cudnn/"}
"""They need the driver's types: from `csrc/driver` on."""


def table() -> dict[str, set[str]]:
    """Each folder and those that it may include, the lowest layer first."""
    found: dict[str, set[str]] = {}
    for folder, cell in ROW.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")):
        named = set(re.findall(r"`(\w+)`", cell))
        found[folder] = set(found) - named if cell.startswith(ABOVE) else named
    return found


def includes(path: Path) -> list[str]:
    return re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), re.M)


def wrong(folder: str, name: str, layers: dict[str, set[str]]) -> bool:
    """Whether a file of the folder may not include the name."""
    if any(name == kind or (kind.endswith("/") and name.startswith(kind)) for kind in GENERATED):
        order = list(layers)
        return order.index(folder) < order.index("driver")
    first, *rest = name.split("/")
    if not rest:
        return name not in ("types.h", "ulms.h")
    return first != folder and first not in layers[folder]


def test_the_table_has_every_folder() -> None:
    assert sorted(table()) == sorted(path.name for path in CSRC.iterdir() if path.is_dir())


def test_a_folder_includes_only_folders_above_it_in_the_table() -> None:
    above: set[str] = set()
    for folder, allowed in table().items():
        assert allowed <= above, folder
        above.add(folder)


def test_every_include_is_allowed() -> None:
    layers = table()
    files = [(folder, path) for folder in layers for path in (CSRC / folder).rglob("*.[ch]")]
    assert len(files) > 200
    found = [
        f"{path.relative_to(CSRC)}: {name}"
        for folder, path in files
        for name in includes(path)
        if wrong(folder, name, layers)
    ]
    assert found == []


BACKEND = {
    ".": {"."},
    "pager": {".", "pager"},
    "um": {".", "pager", "um"},
    "vmm": {".", "pager", "vmm"},
}
"""Each folder of `csrc/backend` and those of which it may include: the pager knows no backend."""


def test_the_folders_of_the_backend_are_in_order() -> None:
    root = CSRC / "backend"
    assert {path.parent.relative_to(root).as_posix() for path in root.rglob("*.c")} == set(BACKEND)
    found = [
        f"{path.relative_to(CSRC)}: {name}"
        for folder, allowed in BACKEND.items()
        for path in (root / folder).glob("*.[ch]")
        for name in includes(path)
        if name.startswith("backend/")
        and Path(name).parent.relative_to("backend").as_posix() not in allowed
    ]
    assert found == []


def test_others_see_the_contract_of_the_backend_alone() -> None:
    seen = {
        name
        for folder in ("library", "interpose")
        for path in (CSRC / folder).rglob("*.[ch]")
        for name in includes(path)
        if name.startswith("backend/")
    }
    assert seen == {"backend/backend.h"}


@pytest.mark.parametrize(
    ("folder", "name", "is_wrong"),
    [
        ("backend", "interpose/record/wrap.h", True),
        ("engine", "ledger/ledger.h", True),
        ("launch", "driver.h", True),
        ("interpose", "engine/engine.h", True),
        ("library", "backend/backend.h", False),
        ("driver", "cuda/abi.h", False),
        ("base", "types.h", False),
    ],
)
def test_what_is_wrong_is_found(folder: str, name: str, is_wrong: bool) -> None:
    assert wrong(folder, name, table()) is is_wrong
