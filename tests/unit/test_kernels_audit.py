"""Kernels with known answers, compiled by NVRTC for four architectures, and mutants of each: what
`csrc/code` decides (`make audit`).
"""

from pathlib import Path

import pytest

from tests.unit.kernels import (
    NVRTC,
    Kernel,
    Verdict,
    compiled,
    kernels,
    mutants,
    text_of,
    verdicts,
)

pytestmark = [
    pytest.mark.unit,
    pytest.mark.slow,
    pytest.mark.skipif(not NVRTC, reason="PUMP_AUDIT names no folder with NVRTC"),
]

SOURCES = ("direct.cu", "indexed.cu", "follows.cu")
ARCHITECTURES = ("80", "90", "100", "120")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def decided(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Kernel, Verdict]]:
    """Every kernel with its verdict."""
    cubin = tmp_path_factory.mktemp("kernels") / f"{request.param}.cubin"
    cubin.write_bytes(compiled(text_of(*SOURCES), request.param))
    found = {verdict.name: verdict for verdict in verdicts("kernels", cubin)}
    return [(kernel, found[kernel.name]) for source in SOURCES for kernel in kernels(source)]


def test_no_kernel_that_follows_pointers_is_trusted(decided: list[tuple[Kernel, Verdict]]) -> None:
    followers = [(k, v) for k, v in decided if k.name.startswith("f_")]
    assert len(followers) > 45
    for kernel, verdict in followers:
        for some in (kernel.pointers, set(kernel.pointers) - {max(kernel.pointers)}):
            assert not verdict.trusts(some), verdict


def test_honest_kernels_are_decided(decided: list[tuple[Kernel, Verdict]]) -> None:
    honest = [(k, v) for k, v in decided if not k.name.startswith("f_")]
    assert len(honest) > 90
    undecided = [verdict for kernel, verdict in honest if not verdict.trusts(kernel.pointers)]
    assert len(undecided) <= len(honest) * 0.05, undecided


def test_a_loaded_index_is_seen(decided: list[tuple[Kernel, Verdict]]) -> None:
    assert {v.name for k, v in decided if k.name.startswith("i_") and v.verdict == "direct"} <= {
        "i_of_constant",  # no memory of the program
        "i_local_by_value",
        "i_chosen_by_value",  # by branches
        "i_bisect_pointer",
    }


def test_what_is_read_and_written_is_told(decided: list[tuple[Kernel, Verdict]]) -> None:
    """All of it; and of a pointer's directions never another one, but where a compiler takes the
    pointer from the parameters by an index.
    """
    by_index = {"d_one_of_two", "i_chosen_by_value"}
    trusted = [(k, v) for k, v in decided if k.name[0] in "di" and v.trusts(k.pointers)]
    for kernel, verdict in trusted:
        for word, suffix in kernel.pointers.items():
            told = word in verdict.reads, word in verdict.writes
            wanted = "r" in suffix, "w" in suffix
            assert told == wanted or (kernel.name in by_index and told >= wanted), verdict


@pytest.mark.parametrize("source", ["direct.cu", "indexed.cu"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_mutant_is_trusted(architecture: str, source: str, tmp_path: Path) -> None:
    """But where the pointer that comes from memory is used for nothing."""
    text, found = mutants(source)
    cubin = tmp_path / "mutants.cubin"
    cubin.write_bytes(compiled(text, architecture))
    decided = {v.name: v for v in verdicts("kernels", cubin) if v.name in found}
    assert len(decided) == len(found) > 900
    survivors = {
        f"{kernel.name} {pointer}"
        for name, (kernel, pointer) in found.items()
        if decided[name].trusts(kernel.pointers)
    }
    assert survivors == {s for s in survivors if s.endswith("_x")}
