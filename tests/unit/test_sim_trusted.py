"""Programs all of whose kernels are trusted: `vmm` leaves unmapped what is away."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pump import binding, paths
from pump.bench.simulate import Task, work
from pump.cli import main
from pump.sim.link import LINKS, UM, VMM, VMM_KNOWN, link_for
from pump.sim.recorded import open_sequence, sequence_of, trusted
from pump.sim.sequence import Sequence, read_sequence
from pump.trace import OpFlag, OpKind, Trace, read

pytestmark = [pytest.mark.unit, pytest.mark.slow]

TEXT = "pump-sequence 1\n{}block 0 0 200000\nlive 0\nstep\no 1 1000 0u\n"


def turns(line: str) -> str:
    """Two hundred pages, updated one after the other; the line is the second."""
    size = VMM.page_bytes
    blocks = "".join(f"block {i} {i * size:x} {size:x}\n" for i in range(200))
    live = "live " + " ".join(map(str, range(200)))
    work = "".join(f"o {i} 100000 {i}u\n" for i in range(200))
    return f"pump-sequence 1\n{line}{blocks}{live}\nstep\n{work}"


@pytest.fixture(scope="module")
def prefill() -> Trace:
    """Kernels of ATen, and those that cuBLAS launches."""
    return read(paths.traces()["prefill-8b"])


def functions(trace: Trace, api: str) -> set[int]:
    """Of the kernels that were launched in calls whose symbols begin so."""
    launches = trace.operations[trace.operations["kind"] == OpKind.LAUNCH]
    pairs = set(launches[["api", "function"]].tolist())
    return {function for call, function in pairs if trace.api_name(call).startswith(api)}


# --- which ---


def test_which_recorded_steps_have_other_kernels() -> None:
    """CuPy's, Triton's, XLA's, and those by which a join builds and probes a table."""
    told = {name: open_sequence(path).trusted for name, path in paths.traces().items()}
    assert len(told) == 24
    others = ["cupy-mix", "hash-join", "jax-transformer", "triton-mlp"]
    assert sorted(name for name, answer in told.items() if not answer) == others


def test_one_kernel_that_is_not_trusted_is_enough(prefill: Trace) -> None:
    assert sequence_of(prefill).trusted
    function = min(functions(prefill, "cuLaunchKernel"))
    assert binding.kernel_trusted(prefill.function_name(function))
    for name in ("build", "_Z5buildPm", "at::native::fill"):  # the last: not as compiled
        other = replace(prefill, functions=prefill.functions | {function: name})
        assert not sequence_of(other).trusted


def test_what_a_library_launches_in_its_calls_is_trusted_by_them(prefill: Trace) -> None:
    inside = dict.fromkeys(functions(prefill, "cublas"), "gemm")
    assert inside
    assert not binding.kernel_trusted("gemm")
    assert trusted(replace(prefill, functions=prefill.functions | inside), 0)
    driver = dict.fromkeys(prefill.apis, "cuLaunchKernel")
    assert not trusted(replace(prefill, apis=driver), 0)


def test_whose_name_is_lost_is_not_trusted(prefill: Trace) -> None:
    assert not trusted(replace(prefill, functions={}), 0)
    assert not trusted(replace(prefill, apis={}), 0)


def test_a_graph_is_not_trusted_where_it_runs(prefill: Trace) -> None:
    graph = prefill.operations[:1].copy()
    graph["kind"] = OpKind.GRAPH
    assert trusted(prefill, 0)
    assert not trusted(replace(prefill, operations=graph), 0)
    assert trusted(replace(prefill, operations=graph), 1)
    graph["flags"] = OpFlag.CAPTURED
    assert trusted(replace(prefill, operations=graph), 0)


def test_a_text_says_it_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "step.txt"
    for line in ("", "trusted\n"):
        path.write_text(TEXT.format(line), encoding="utf-8")
        assert read_sequence(path).trusted == bool(line)


# --- what follows ---


def test_vmm_is_played_unmapped_only_where_all_are_trusted() -> None:
    others = Sequence((), ())
    good = replace(others, trusted=True)
    assert {name: link_for(name, others) for name in LINKS} == LINKS
    unmapped = link_for("vmm", good)
    assert unmapped == replace(VMM, handles=VMM_KNOWN.handles)
    assert unmapped.handles
    assert not unmapped.handles.maps_away
    assert (link_for("um", good), link_for("vmm-known", good)) == (UM, VMM_KNOWN)
    mine = LINKS | {"um": replace(UM, rate_in=1.0)}
    assert link_for("um", good, mine).rate_in == 1


def test_systems_are_played_over_the_link_of_the_program() -> None:
    for name, same in (("resnet50", True), ("hash-join", False)):
        tasks = [Task(paths.traces()[name], 2, (system,)) for system in ("vmm", "vmm-known")]
        vmm, known = (rows[0] for rows in map(work, tasks) if isinstance(rows, list))
        assert (vmm == replace(known, system="vmm")) == same


def test_the_link_of_pump_sim_is_the_backend_for_that_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "others.txt").write_text(turns(""), encoding="utf-8")
    (tmp_path / "good.txt").write_text(turns("trusted\n"), encoding="utf-8")
    files = [str(tmp_path / name) for name in ("others.txt", "good.txt")]
    words = ["--over", "2", "--policy", "ahead", "--link", "vmm", "--link", "vmm-known"]
    assert main(["sim", *files, *words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    took = {(row["sequence"], row["link"]): row["step_ms"] for row in rows}
    assert took["good", "vmm"] == took["good", "vmm-known"] == took["others", "vmm-known"]
    assert took["others", "vmm"] > 1.3 * took["good", "vmm"]
