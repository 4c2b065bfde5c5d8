"""The files of deploy/kubernetes are what the API takes, and say what `pump cdi` says."""

import json
import re
import shutil
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from celpy.evaluation import CELEvalError

from pump.cli.cdi import INSIDE, MEETING, Cdi
from tests.conftest import ROOT
from tests.kubernetes import FOLDER, Document, admitted, documents, valid

pytestmark = pytest.mark.unit

LIBRARY = Path("/var/lib/ulms/ulms.so")
"""On a node."""


@pytest.fixture
def policy() -> Document:
    return documents("policy.yaml")[0]


@pytest.fixture
def pod() -> Document:
    return documents("example-pod.yaml")[0]


@pytest.fixture
def daemons() -> Document:
    (one,) = documents("broker.yaml")
    spec: Document = one["spec"]["template"]["spec"]
    return spec


def kustomization() -> Document:
    text = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8")
    found: Document = yaml.safe_load(text)
    return found


def mounts(pod: Document, container: Document) -> dict[str, tuple[str, str, bool]]:
    """By path inside: path on the node, its kind, whether it may be written."""
    of = {volume["name"]: volume.get("hostPath") for volume in pod["volumes"]}
    return {
        mount["mountPath"]: (*of[mount["name"]].values(), not mount.get("readOnly"))
        for mount in container["volumeMounts"]
        if of[mount["name"]]
    }


def environment(container: Document) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"]}


def from_cdi() -> tuple[dict[str, str], dict[str, tuple[str, bool]]]:
    """Environment and mounts of a container with ulms/memory=share."""
    spec = Cdi().run(LIBRARY, Path(MEETING))
    share = {one["name"]: one["containerEdits"] for one in spec["devices"]}["share"]
    edits = (spec["containerEdits"], share)
    found = [mount for edit in edits for mount in edit["mounts"]]
    return (
        dict(word.split("=", 1) for edit in edits for word in edit["env"]),
        {one["containerPath"]: (one["hostPath"], "rw" in one["options"]) for one in found},
    )


def test_all_files_are_applied_but_the_example() -> None:
    """By `kubectl apply -k`; every document of them is validated."""
    made = kustomization()
    assert "namespace" not in made  # kustomize would give one to what may not have it
    kinds = [one["kind"] for file in made["resources"] for one in documents(file)]
    assert sorted(kinds) == [
        "DaemonSet",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "Namespace",
    ]
    given = {file for one in made["configMapGenerator"] for file in one["files"]}
    named = {*made["resources"], *given, "kustomization.yaml", "example-pod.yaml"}
    assert named == {path.name for path in FOLDER.iterdir()}


def test_what_kubectl_makes_of_them_is_valid() -> None:
    """Only what lies in a namespace has one, and the map's made name is the one that is mounted."""
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl")
    words = ["kubectl", "kustomize", str(FOLDER)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    made = [valid(one) for one in yaml.safe_load_all(text)]
    found = {one["kind"]: one for one in made}
    namespaced = {kind for kind, one in found.items() if "namespace" in one["metadata"]}
    assert namespaced == {"ConfigMap", "DaemonSet"}
    assert found["Namespace"]["metadata"]["name"] == "ulms"
    assert {found[kind]["metadata"]["namespace"] for kind in namespaced} == {"ulms"}
    volumes = found["DaemonSet"]["spec"]["template"]["spec"]["volumes"]
    mounted = {one["configMap"]["name"] for one in volumes if "configMap" in one}
    maps = {one["metadata"]["name"]: one["data"] for one in made if one["kind"] == "ConfigMap"}
    assert mounted == maps.keys()
    data = {name: text for one in maps.values() for name, text in one.items()}
    assert data == {name: (FOLDER / name).read_text("utf-8") for name in data}
    assert data.keys() == {"ulms.json", "shares.toml"}


def test_a_node_gets_the_file_that_pump_cdi_prints() -> None:
    made = json.loads((FOLDER / "ulms.json").read_text(encoding="utf-8"))
    assert made == Cdi().run(LIBRARY, Path(MEETING))


def test_each_node_with_a_gpu_runs_a_pod_of_the_set() -> None:
    (made,) = documents("broker.yaml")
    spec, template = made["spec"], made["spec"]["template"]
    assert spec["selector"]["matchLabels"] == template["metadata"]["labels"]
    assert template["spec"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert template["spec"]["hostPID"] is True  # else all programs have the number 0


def test_the_broker_serves_where_programs_look(daemons: Document) -> None:
    (install,), (broker,) = daemons["initContainers"], daemons["containers"]
    assert broker["command"][:3] == ["ulms-broker", "--dir", MEETING]
    assert mounts(daemons, broker) == {MEETING: (MEETING, "DirectoryOrCreate", True)}
    assert broker["readinessProbe"]["exec"]["command"][-1] == f"{MEETING}/broker.sock"
    made = mounts(daemons, install)
    assert {path for path, _, _ in made.values()} == {str(LIBRARY.parent), "/etc/cdi"}
    maps = {one["files"][0]: one["name"] for one in kustomization()["configMapGenerator"]}
    for volume, file in (("cdi-file", "ulms.json"), ("shares", "shares.toml")):
        assert {"name": volume, "configMap": {"name": maps[file]}} in daemons["volumes"]
    (folder,) = (one["mountPath"] for one in broker["volumeMounts"] if one["name"] == "shares")
    assert broker["command"][5:] == ["--config", f"{folder}/shares.toml"]


def test_the_image_has_what_the_manifest_names(daemons: Document, pod: Document) -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    stages = re.split(r"^(?=FROM )", text, flags=re.M)[1:]
    assert [re.split(r"\s", stage)[1] for stage in stages][1:] == ["scratch"]
    image = stages[0]
    assert re.match(r"FROM \S+ AS broker\n", image)
    (install,), (broker,) = daemons["initContainers"], daemons["containers"]
    assert {install["image"], broker["image"]} == {kustomization()["images"][0]["name"]}
    copied = re.findall(r"cp -L (/usr\S+)", install["command"][-1])
    assert copied == re.findall(r'ln -s "\$\(pump lib\)" (\S+)', image)
    (linked,) = re.findall(
        r'ln -s "\S+ "\$\(pump lib\)"\)/ulms-broker" /usr/local/bin/(\S+)', image
    )
    assert linked == broker["command"][0]
    ((number, group),) = re.findall(r"groupadd --gid (\d+) (\w+)", image)
    assert broker["command"][3:5] == ["--group", group]
    for spec in (daemons, pod["spec"]):
        assert spec["securityContext"]["supplementalGroups"] == [int(number)]
    assert f"ULMS_SHARE_DIR={MEETING}" in image
    assert f'CMD ["{linked}"]' in image
    (folder,) = re.findall(r"^COPY \*\.whl (\S+/)$", image, re.M)
    assert f"{folder}*_$(uname -m).whl" in image
    assert "ARG TARGETARCH\nCOPY ${TARGETARCH}/ulms.so /ulms.so\n" in stages[1]


def test_a_labelled_pod_gets_what_pump_cdi_gives(policy: Document, pod: Document) -> None:
    made = admitted(policy, pod)
    (container,) = made["spec"]["containers"]
    env, mounted = from_cdi()
    share = pod["metadata"]["labels"]["ulms.dev/share"]
    assert environment(container) == env | {"ULMS_SHARE": share, "ULMS_BACKEND": "vmm"}
    kinds = {str(LIBRARY): "File", MEETING: "Directory"}
    assert mounts(made["spec"], container) == {
        inside: (path, kinds[path], writable) for inside, (path, writable) in mounted.items()
    }
    for one in made["spec"], container:
        one.pop("volumes", None), one.pop("volumeMounts", None)
    container["env"] = pod["spec"]["containers"][0]["env"]
    assert made == pod


def test_it_is_the_same_when_applied_again(policy: Document, pod: Document) -> None:
    pod["spec"]["containers"][0]["env"].append({"name": "LD_PRELOAD", "value": "/own.so"})
    once = admitted(policy, pod)
    assert environment(once["spec"]["containers"][0])["LD_PRELOAD"] == f"{INSIDE}:/own.so"
    assert admitted(policy, once) == once


def test_a_pod_without_the_label_stays_as_it_is(policy: Document, pod: Document) -> None:
    del pod["metadata"]["labels"]
    assert admitted(policy, pod) == pod


@pytest.mark.parametrize(
    ("resources", "shares"),
    [
        (None, False),
        ({"limits": {"cpu": 1}}, False),
        ({"limits": {"nvidia.com/gpu.shared": 1}}, True),
        ({"claims": [{"name": "gpu"}]}, True),
    ],
)
def test_only_containers_with_a_gpu_share(
    policy: Document, pod: Document, resources: Any, shares: bool
) -> None:
    """Another one may have musl, to which the library is poison."""
    other = {"name": "other", "image": "busybox"} | ({"resources": resources} if resources else {})
    pod["spec"]["containers"].append(deepcopy(other))
    first, second = admitted(policy, pod)["spec"]["containers"]
    assert "volumeMounts" in first
    assert (second != other) is shares
    assert {"LD_PRELOAD" in environment(one) for one in (first, second) if "env" in one} == {True}


def test_a_preload_from_elsewhere_is_refused(policy: Document, pod: Document) -> None:
    """What it will be is not known here, and to replace it would not be seen."""
    source = {"configMapKeyRef": {"name": "a", "key": "b"}}
    pod["spec"]["containers"][0]["env"] += [{"name": "LD_PRELOAD", "valueFrom": source}]
    with pytest.raises(CELEvalError, match="no matching overload"):
        admitted(policy, pod)


def test_the_binding_is_of_the_policy() -> None:
    policy, binding = documents("policy.yaml")
    assert binding["spec"] == {"policyName": policy["metadata"]["name"]}
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])
    assert (policy["spec"]["failurePolicy"], policy["spec"]["reinvocationPolicy"]) == (
        "Fail",
        "IfNeeded",
    )


def test_the_namespace_allows_paths_of_the_node() -> None:
    (made,) = documents("namespace.yaml")
    assert made["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}
