"""What a cluster does with the files of deploy/kubernetes, by the models of the API."""

import json
import re
from copy import deepcopy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import celpy
import kubernetes_validate
import yaml
from celpy.adapter import CELJSONEncoder, json_to_cel
from celpy.celtypes import MapType
from celpy.evaluation import CELEvalError

FOLDER = Path(__file__).parents[1] / "deploy" / "kubernetes"
VERSION = "1.36"
"""The first that has all the files' versions of the API."""
POD = "io.k8s.api.core.v1.Pod"

Document = dict[str, Any]


def documents(name: str) -> list[Document]:
    """Those of a file, each validated: no field that the API does not have, no wrong type."""
    found = [*yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))]
    for one in found:
        valid(one)
    return found


def valid(document: Document) -> Document:
    """The same. Raises ValidationError."""
    kubernetes_validate.validate(document, VERSION, strict=True)
    return document


@cache
def models() -> Document:
    folder = f"kubernetes-json-schema/v{VERSION}.0-local-strict/_definitions.json"
    text = (files("kubernetes_validate") / folder).read_text(encoding="utf-8")
    found: Document = json.loads(text)["$defs"]
    return found


def model(name: str, path: str = "") -> Document:
    """That of a field, `.spec.containers`, or of each item of it. KeyError: there is none."""
    here: Document = models()[name]
    for field in path.split(".")[1:]:
        here = here["properties"][field]
        here = here.get("items", here)
        here = models()[here["$ref"].rpartition("/")[2]] if "$ref" in here else here
    return here


class Configured(MapType):
    """An object that an expression made. `path`: of the field that its type is of."""

    path = ""


def selected(policy: Document, pod: Document) -> bool:
    """By its labels. The policy has no other condition."""
    constraints = policy["spec"]["matchConstraints"]
    assert constraints.keys() == {"resourceRules", "objectSelector"}
    wanted = constraints["objectSelector"]["matchExpressions"]
    assert [one["operator"] for one in wanted] == ["Exists"]
    return wanted[0]["key"] in pod["metadata"].get("labels", {})


def admitted(policy: Document, pod: Document) -> Document:
    """The pod as the API server keeps it, validated."""
    made = deepcopy(pod)
    for mutation in policy["spec"]["mutations"] if selected(policy, pod) else []:
        assert mutation["patchType"] == "ApplyConfiguration"
        known: dict[str, Any] = {"object": json_to_cel(made)}
        variables = MapType()
        for one in policy["spec"].get("variables", []):
            variables[one["name"]] = evaluated(one["expression"], known | {"variables": variables})
        expression = mutation["applyConfiguration"]["expression"]
        configuration = evaluated(expression, known | {"variables": variables})
        made = applied(made, configuration, "")
    return valid(made)


def evaluated(expression: str, known: dict[str, Any]) -> Any:
    """Raises CELEvalError. The library takes the dots in the name of a type for packages."""
    types: dict[str, Any] = {}

    def renamed(found: re.Match[str]) -> str:
        path = found[0].removeprefix("Object").removesuffix("{")
        name = "Object" + path.replace(".", "_")
        types[name] = type(name, (Configured,), {"path": path})
        return name + "{"

    text = re.sub(r"\bObject[\w.]*\{", renamed, expression)
    environment: Any = celpy.Environment(annotations=types)
    return environment.program(environment.compile(text)).evaluate(known)


def applied(live: Any, configuration: Any, path: str) -> Any:
    """Merged as server-side apply does it: lists by their keys."""
    if isinstance(configuration, Configured):
        assert configuration.path == path
        live = live or {}
        for key, value in configuration.items():
            field = str(key)
            model(POD, f"{path}.{field}")
            live[field] = applied(live.get(field), value, f"{path}.{field}")
        return live
    if isinstance(configuration, CELEvalError):  # it was left where the value would be
        raise configuration
    if not isinstance(configuration, list):
        return json.loads(json.dumps(configuration, cls=CELJSONEncoder))
    keys = list_keys(path)
    merged = live or []
    for item in configuration:
        same = [one for one in merged if all(one.get(key) == item.get(key) for key in keys)]
        found = same[0] if same else {}
        found |= applied(found, item, path)
        merged += [] if same else [found]
    return merged


def list_keys(path: str) -> list[str]:
    """Raises KeyError for a list that is replaced as a whole: a policy may not do that."""
    parent, _, field = path.rpartition(".")
    keys: list[str] = model(POD, parent)["properties"][field]["x-kubernetes-list-map-keys"]
    return keys
