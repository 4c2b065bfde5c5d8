"""The decoder of machine code (`csrc/code`) against what nvdisasm said of instructions.

`tests/reference/instructions.tsv` has one of each kind that compilers made of our test kernels and
of a library, for four architectures. `make audit` compares with a million of each architecture.
"""

import dataclasses
from pathlib import Path

import pytest

from tests.unit.disassembly import decoded, disagreement, disagreements, row_of, unlisted

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
ROWS = [
    row_of(line)
    for line in (ROOT / "tests" / "reference" / "instructions.tsv").read_text().splitlines()
]


def test_instructions_of_each_architecture_are_decoded_as_nvdisasm_does() -> None:
    assert {row.architecture for row in ROWS} == {80, 90, 100, 120}
    assert len(ROWS) > 900
    assert disagreements(ROWS) == []
    assert unlisted(ROWS) == {"TLD"}  # a texture


def test_what_is_decoded_wrongly_is_found() -> None:
    """Of each instruction the answer is asked as if nvdisasm had seen another one."""
    found = set()
    for row, answer in zip(ROWS, decoded(ROWS), strict=True):
        for other in (
            dataclasses.replace(row, writes=row.writes | {"R200"}),
            dataclasses.replace(row, reads=row.reads | {"R200"}),
            dataclasses.replace(row, text=row.text.replace("c[0x0][0x", "c[0x0][0x1")),
            dataclasses.replace(row, text=row.text.replace("+0x", "+0x1")),
            dataclasses.replace(row, text=row.text.replace(", R", ", -R")),
            dataclasses.replace(row, target=row.target + 16 if row.target else 0),
        ):
            found.add(disagreement(other, answer))
    assert found == {"", "writes", "reads", "constants", "offset", "signs", "target"}


def test_no_instruction_of_an_architecture_without_a_table_is_decoded() -> None:
    other = [dataclasses.replace(row, architecture=75) for row in ROWS]
    assert {found[0] for found in decoded(other)} == {"0"}
