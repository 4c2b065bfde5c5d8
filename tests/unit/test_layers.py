"""The layers of `csrc` and `pump`: what each folder includes or imports, held against the tables of
ARCHITECTURE.md.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"
PUMP = ROOT / "pump"
ROW = re.compile(r"^\| `(csrc|pump)/(\w+)` \|(?:[^|]*\|)? ([^|]*) \|$", re.M)
ABOVE = "all above but "
GENERATED = {
    *("driver.h", "library.h", "cudnn_roles.h", "cudnn_labels.h"),
    *("cuda/", "nvml/", "cublas/", "cudnn/", "nccl/"),
}
"""They need the driver's types: from `csrc/driver` on."""


def table(tree: str = "csrc") -> dict[str, set[str]]:
    """Each folder and those that it may include or import, the lowest layer first."""
    found: dict[str, set[str]] = {}
    for root, folder, cell in ROW.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")):
        if root != tree:
            continue
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
    if first == "share":
        return folder not in ("base", "tenant")
    return first != folder and first not in layers[folder]


def imports(tree: ast.AST) -> Iterator[str]:
    """What a module imports of pump, inside functions too: the word after `pump.`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        words = [name.split(".") for name in names]
        yield from ([*word, ""][1] for word in words if word[0] == "pump")


def may_import(package: str, name: str, layers: dict[str, set[str]]) -> bool:
    """Whether a module of the package ("": one beside them) may import the name."""
    if name in layers:
        return bool(package) and (name == package or name in layers[package])
    beside = {path.stem for path in PUMP.glob("*.py")} - {"__init__", "__main__"}
    return name in {*beside, "_policy", "_share", "_ulms", "__version__"}


@pytest.mark.parametrize(("tree", "top"), [("csrc", CSRC), ("pump", PUMP)], ids=["csrc", "pump"])
def test_the_table_has_every_folder(tree: str, top: Path) -> None:
    code = (
        path.relative_to(top).parts for path in top.rglob("*") if path.suffix in (".c", ".h", ".py")
    )
    assert set(table(tree)) == {first for first, *rest in code if rest}


@pytest.mark.parametrize("tree", ["csrc", "pump"])
def test_a_folder_uses_only_folders_above_it_in_the_table(tree: str) -> None:
    above: set[str] = set()
    for folder, allowed in table(tree).items():
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


def test_the_policy_includes_nothing_but_itself_and_libc() -> None:
    files = list((ROOT / "broker" / "policy").glob("*.[ch]"))
    assert len(files) > 8
    assert {name for path in files for name in includes(path)} == {
        "broker/policy.h",
        "broker/policy/state.h",
    }


BROKER = {
    "broker": r"(broker|share)/\w+\.h",
    "share": r"share/\w+\.h|broker/policy\.h",
}


@pytest.mark.parametrize("folder", BROKER)
def test_broker_and_share_include_nothing_of_the_library(folder: str) -> None:
    found = {name for path in (ROOT / folder).glob("*.[ch]") for name in includes(path)}
    assert len(found) > 2
    assert [name for name in found if not re.fullmatch(BROKER[folder], name)] == []


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


def test_every_import_is_allowed() -> None:
    """But for those of `__init__` and `__main__`, which stand before all packages."""
    layers = table("pump")
    files = [(path, path.relative_to(PUMP).parts) for path in PUMP.rglob("*.py")]
    assert len(files) > 80
    found = [
        f"{path.relative_to(PUMP)}: {name}"
        for path, (first, *rest) in files
        if rest or first not in ("__init__.py", "__main__.py")
        for name in imports(ast.parse(path.read_text(encoding="utf-8")))
        if not may_import(first if rest else "", name, layers)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("package", "line", "allowed"),
    [
        ("cli", "from pump.bench import cli", False),
        ("cli", "def late(): import pump.bench.row", False),
        ("bench", "from pump.cli.render import table", False),
        ("predict", "from pump import cli", False),
        ("predict", "from pump.terminal import render", False),
        ("sim", "from pump import predict", False),
        ("terminal", "from pump.sim.link import LINKS", False),
        ("", "from pump.trace import read", False),
        ("sim", "import pump", False),
        ("cli", "from pump.predict import plan", True),
        ("bench", "from pump.terminal.render import table", True),
        ("trace", "from pump import __version__", True),
        ("sim", "from pump import binding", True),
    ],
)
def test_a_wrong_import_is_found(package: str, line: str, allowed: bool) -> None:
    layers = table("pump")
    assert all(may_import(package, name, layers) for name in imports(ast.parse(line))) is allowed
