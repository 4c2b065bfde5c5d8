"""What `csrc/code` decides of kernels, by their code in `tests/reference/kernels.txt`.

They are a few of those in `tests/kernels` as NVRTC compiles them. `make audit` compiles all, and
mutants.
"""

import re
from pathlib import Path

import pytest

from tests.unit.kernels import Verdict, kernels, verdicts

pytestmark = pytest.mark.unit

LINES = (Path(__file__).parents[1] / "reference" / "kernels.txt").read_text().splitlines()
SOURCES = ("direct.cu", "indexed.cu", "follows.cu")
POINTERS = {kernel.name: kernel.pointers for s in SOURCES for kernel in kernels(s)}


def decide(lines: list[str]) -> list[Verdict]:
    """The verdict of each."""
    found = list(verdicts("code", lines="\n".join(lines) + "\n"))
    assert [v.name for v in found] == [line.split()[0] for line in lines]
    return found


def test_direct_and_indexed_kernels_are_trusted_and_no_others() -> None:
    assert {line.split()[1] for line in LINES} == {"80", "90", "100", "120"}
    for verdict in decide(LINES):
        expected = {"d": "direct", "i": "indexed"}.get(verdict.name[0])
        assert verdict.trusts(POINTERS[verdict.name]) == (expected is not None), verdict
        assert expected in (verdict.verdict, None)


def test_reads_and_writes_are_told() -> None:
    for verdict in decide([line for line in LINES if not line.startswith("f_")]):
        for word, suffix in POINTERS[verdict.name].items():
            told = word in verdict.reads, word in verdict.writes
            assert told == ("r" in suffix, "w" in suffix), verdict


def test_a_launch_where_the_base_is_no_address_is_not_trusted() -> None:
    for verdict in decide([line for line in LINES if line.startswith("i_")]):
        assert not verdict.trusts([])
        assert not verdict.trusts(range(len(POINTERS[verdict.name]), 30))


def test_the_usual_descriptor_is_known_where_a_predicate_decides() -> None:
    """ULDC.64 of it gets a guard; another constant in its place is none."""
    (line,) = (line for line in LINES if line.startswith("d_block_sum 90 "))
    for offset, verdict in (("82", "direct"), ("83", "unknown")):
        changed = re.sub("b97a(..)00008200", rf"b90a\g<1>0000{offset}00", line)
        assert changed != line
        assert [found.verdict for found in decide([changed])] == [verdict]


def test_an_instruction_that_is_not_known_makes_a_kernel_unknown() -> None:
    """Any that is reached: the first, or the one in the middle of what has no branches."""
    odd = [
        " ".join((*words, code[: 32 * at] + "ff" * 16 + code[32 * at + 32 :]))
        for *words, code in map(str.split, LINES)
        for at in (0, 4)
    ]
    assert {verdict.verdict for verdict in decide(odd)} == {"unknown"}


def test_no_kernel_of_an_architecture_without_a_table_is_known() -> None:
    other = [line.replace(f" {line.split()[1]} ", " 75 ", 1) for line in LINES]
    assert {verdict.verdict for verdict in decide(other)} == {"unknown"}


def test_code_that_is_cut_off_is_unknown() -> None:
    """Without its last instructions, the way out is not there."""
    short = [line[: -32 * (2 + n)] for n in range(3) for line in LINES if line[0] != "f"]
    assert {v.verdict for v in decide(short)} == {"unknown"}
