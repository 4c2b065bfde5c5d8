"""Where things are: READMEs name files, and wrappers lie as the tables of hooks do."""

import re
from collections import Counter
from pathlib import Path

import pytest

from hooks.gen import shipped
from hooks.generator.row import Custom

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"
TREES = (CSRC, ROOT / "broker", ROOT / "share")
FOLDERS = sorted({path.parent for tree in TREES for path in tree.rglob("*.[ch]")} - {CSRC})
CELL = re.compile(r"(?<=\|) ((?:`\w+\.[ch]`(?:, )?)+) (?=\|)")
"""One that has nothing but names."""
SAME_NAME = 9
SYMBOLS = {"proc.hooks": "symbols/proc.c"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_each_file_is_named_once(folder: Path) -> None:
    """A header goes with the file of its name."""
    cells = CELL.findall((folder / "README.md").read_text(encoding="utf-8"))
    names = [name for cell in cells for name in re.findall(r"\w+\.[ch]", cell)]
    files = {path.name for path in folder.glob("*.[ch]")}
    assert sorted(names) == sorted(set(names))
    assert set(names) <= files
    assert {Path(name).stem for name in names} == {Path(name).stem for name in files}


def test_each_file_of_the_emulator_is_named_once() -> None:
    """Its page names them without their ends."""
    folder = ROOT / "emulator"
    table = (folder / "README.md").read_text(encoding="utf-8").split("\n\n")[2]
    names = re.findall(r"`(\w+)(?:\.h)?`", table)
    assert sorted(names) == sorted({path.stem for path in folder.glob("*.[ch]")})


def test_the_wrappers_of_a_table_are_in_the_file_of_its_name() -> None:
    interpose = CSRC / "interpose"
    rows = [row for row in shipped().rows if isinstance(row.treatment, Custom)]
    driver = [row for row in rows if row.where.file.startswith("cuda/")]
    assert len(driver) > 80
    for row in driver:
        table = row.where.file.removeprefix("cuda/")
        file = SYMBOLS.get(table, f"wrappers/{table.removesuffix('.hooks')}.c")
        text = (interpose / file).read_text(encoding="utf-8")
        assert re.search(rf"\b(custom_)?{row.symbol}(?=[(,)])", text), f"{row.symbol}: {file}"


def missing(page: str) -> set[str]:
    """Paths of this tree that a page names and that are not there."""
    named = re.findall(r"`([\w.*-]+(?:/[\w.*-]+)+)`", page)
    ours = {path.name for path in ROOT.iterdir()}
    return {name for name in named if name.split("/")[0] in ours and not [*ROOT.glob(name)]}


def test_a_newcomer_finds_where_things_belong() -> None:
    page = (ROOT / "HACKING.md").read_text(encoding="utf-8")
    rows = page.split("## Where does it belong?")[1].split("\n## ")[0].strip().splitlines()[2:]
    assert len(rows) == 10
    assert all(re.search(r"`\w+/", row.split("|")[2]) for row in rows)
    assert missing(page) == set()
    assert missing("`csrc/base/log.c`, `csrc/gone.c`, `hooks/*.none`, `vllm/x.py`") == {
        "csrc/gone.c",
        "hooks/*.none",
    }


def test_a_debugger_tells_functions_of_files_apart() -> None:
    """A name of functions that are static is that of few."""
    static = re.compile(r"^static (?:inline )?[\w *]+?\*?(\w+)\(", re.M)
    names = Counter(
        name
        for path in CSRC.rglob("*.c")
        for name in static.findall(path.read_text(encoding="utf-8"))
    )
    assert len(names) > 1000
    assert [name for name, count in names.items() if count > SAME_NAME] == []
