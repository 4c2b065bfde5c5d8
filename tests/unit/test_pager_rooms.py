"""`struct pager` has few members, and each struct in it is changed by one file.

A member's type says which: `struct pager_moves` is defined in `moves.h`, so that only `moves.c`
assigns to its fields. Other files call its functions.
"""

import functools
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

BACKEND = Path(__file__).parents[2] / "csrc" / "backend"
MOST = 15

WRITE = r"(?:\[[^][]*\])?\s*(?:[-+*/|&]?=(?!=)|\+\+|--)"
ATOMIC = r"__atomic_(?:store_n|exchange_n|compare_exchange_n|(?:fetch_\w+|\w+_fetch))\(&"
STRUCT = re.compile(r"^struct (pager\w*) \{\n(.*?)^\};", re.M | re.S)
FIELD = re.compile(r"^    (?:const )?(?:struct |enum )?(\w+) ([^;(]+);", re.M)


def code(path: Path) -> str:
    """Without comments and strings."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', text)


@functools.cache
def structs() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """By name: the file's stem that defines it, and its members by type and name."""
    found = {}
    for path in sorted((BACKEND / "pager").glob("*.h")):
        for name, body in STRUCT.findall(code(path)):
            flat = re.sub(r"\b(struct \w+ )\{[^}]*\}", r"\1", body)
            fields = [
                (kind, part.strip())
                for kind, declared in FIELD.findall(flat)
                for part in declared.split(",")
            ]
            found[name] = (path.stem, fields)
    return found


@functools.cache
def embedded(name: str = "pager") -> dict[str, str]:
    """The structs in `struct pager`, at any depth, and the file that changes each."""
    known, found = structs(), {}
    for kind, member in known[name][1]:
        if kind in known and not member.startswith("*"):
            found[kind] = known[kind][0]
            found |= embedded(kind)
    return found


@functools.cache
def paths(name: str = "pager", prefix: str = "") -> dict[str, str]:
    """Each way to a field from a `struct pager`, and the file that changes it."""
    known, found = structs(), {}
    for kind, member in known[name][1]:
        field = prefix + re.sub(r"\[.*|^\*+", "", member)
        if prefix:
            found[field] = known[name][0]
        if kind in known and not member.startswith("*"):
            found |= paths(kind, field + ".")
    return found


def changed(text: str) -> set[str]:
    """The structs of `embedded` and the ways of `paths` that the text assigns to."""
    found = set()
    for way in paths():
        at = r"(?:\[[^][]*\])?\.".join(map(re.escape, way.split(".")))
        if re.search(rf"->{at}{WRITE}", text) or re.search(
            rf"{ATOMIC}[\w>-]*->{at}(?![\w.])", text
        ):
            found.add(way)
    for kind in embedded():
        for variable in re.findall(rf"(?<!const )struct {kind} \*(\w+)", text):
            at = rf"\b{variable}->[\w.]+"
            whole = rf"^\s*\*{variable}{WRITE}"
            if re.search(rf"{at}{WRITE}|{ATOMIC}{at}|{whole}", text, re.M):
                found.add(kind)
    return found


def test_struct_pager_has_few_members() -> None:
    assert 10 < len(structs()["pager"][1]) <= MOST


def test_the_structs_are_found() -> None:
    files = embedded()
    assert len(files) > 15
    assert files["pager_moves"] == "moves"
    assert files["pager_ordered"] == "ordered"
    assert paths()["phase.prior.ticket"] == "prior"


def test_each_struct_is_changed_by_the_file_of_its_name() -> None:
    files = embedded() | paths()
    found = [
        f"{path.relative_to(BACKEND)}: {name}"
        for path in sorted(BACKEND.rglob("*.c"))
        for name in sorted(changed(code(path)))
        if path != BACKEND / "pager" / f"{files[name]}.c"
    ]
    assert found == []


ROOMS = ("admission", "movers", "markers", "moves", "budget", "blocks")


def calls(stem: str) -> set[str]:
    """The rooms with functions that the file calls."""
    text = code(BACKEND / "pager" / f"{stem}.c")
    return {
        other
        for other in ROOMS
        if other != stem
        for name in re.findall(r"(\w+)\(", code(BACKEND / "pager" / f"{other}.h"))
        if re.search(rf"\b{name}\(", text)
    }


def test_no_circle_of_calls_among_the_rooms() -> None:
    left = {stem: calls(stem) for stem in ROOMS}
    assert left["movers"] >= {"moves", "markers"}
    while done := {stem for stem in left if not left[stem] & left.keys()}:
        left = {stem: left[stem] for stem in left.keys() - done}
    assert left == {}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("d->moves.paused++;", {"moves.paused"}),
        ("__atomic_store_n(&d->admission.untracked, 1, 2);", {"admission.untracked"}),
        ("struct pager_budget *b = &d->budget; b->room = 0;", {"pager_budget"}),
        ("const struct pager_budget *b = &d->budget; x = b->room;", set()),
        ("if (d->moves.paused == 0)", set()),
        ("d->movers.lanes[lane].idle--;", {"movers.lanes.idle"}),
    ],
)
def test_what_changes_is_found(text: str, what: set[str]) -> None:
    assert changed(text) == what
