"""Writes docs/*.schema.json: what files hold that commands write or read, for editors and readers.

The comment behind a field is its description.
"""

import inspect
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from pump.bench.row import File, Row

DOCS = Path(__file__).parents[1] / "docs"
SIZE = r"^[0-9]+(\.[0-9]+)? ?([KMGTkmgt]([Ii]?[Bb])?|[Bb])?$"
NAME = "^[A-Za-z0-9._/-]{1,63}$"
Size = Annotated[str, Meta(pattern=SIZE)] | Annotated[int, Meta(gt=0)]
Part = Annotated[float, Meta(gt=0, le=1)] | Literal["none"]
Time = Annotated[str, Meta(pattern="^([0-9]+[smh]|none)$")]


class Shares(Struct):
    """The broker's configuration (TOML): settings of all, and a table for each group."""

    capacity: Size | UnsetType = UNSET  # of each GPU, to share out
    turn: Annotated[float, Meta(gt=0, le=20)] | UnsetType = UNSET  # seconds
    resident: Annotated[int, Meta(gt=0)] | UnsetType = UNSET  # programs on a GPU


class Group(Struct, forbid_unknown_fields=True):
    """What a group gets; none takes a setting away."""

    request: Part | UnsetType = UNSET  # part of GPU time that it is sure of
    limit: Part | UnsetType = UNSET  # part of GPU time, at most
    hard: bool | UnsetType = UNSET  # the limit holds while nobody else wants the GPU, too
    memory: Size | Literal["none"] | UnsetType = UNSET  # that all of its programs may hold
    priority: int | UnsetType = UNSET  # who has a higher one goes first
    idle: Time | UnsetType = UNSET  # suspended when it was idle for so long
    pin: bool | UnsetType = UNSET  # host memory ahead, so that a suspend is fast


def schemas() -> dict[str, dict[str, Any]]:
    """By the names of their files."""
    shares = of(Shares, Group)
    group = {"$ref": "#/$defs/Group"}
    shares["$defs"]["Shares"] |= {"additionalProperties": group, "propertyNames": {"pattern": NAME}}
    return {"results": of(File, Row), "shares": shares}


def of(first: type, *others: type) -> dict[str, Any]:
    """Of a file that is the first, with the others in it."""
    (top, *_), parts = msgspec.json.schema_components(
        [first, *others], ref_template="#/$defs/{name}"
    )
    for kind in (first, *others):
        for name, told in comments(kind).items():
            parts[kind.__name__]["properties"][name]["description"] = told
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": parts}


def comments(kind: type) -> dict[str, str]:
    """Behind the fields of a class."""
    return dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(kind), re.M))


def text(schema: dict[str, Any]) -> str:
    """As it stands in its file."""
    return json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    for name, schema in schemas().items():
        (DOCS / f"{name}.schema.json").write_text(text(schema), encoding="utf-8")
