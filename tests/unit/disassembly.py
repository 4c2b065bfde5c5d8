"""What the vendor's nvdisasm says of instructions, and whether `csrc/code` agrees (`read_code`)."""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

BUILD = Path(os.environ.get("PUMP_BUILD_DIR", Path(__file__).parents[2] / "build" / "dev"))
LOW = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*/\* 0x([0-9a-f]{16}) \*/")
HIGH = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
LABEL = re.compile(r"^(?:\.L_x_\d+|[\w$.]+):\s*$")
KINDS = {"GPR": "R", "UGPR": "UR", "PRED": "P", "UPRED": "UP"}
INEXACT = {
    "ARRIVES",
    "BPT",
    "CALL",
    "CCTL",
    "LDGSTS",
    "MATCH",
    "NANOSLEEP",
    "R2P",
    "SYNCS",
    "WARPSYNC",
}
"""They use registers whose values do not matter here, or nvdisasm leaves predicates out."""
HIDDEN = {"UR0", "UR1", "UR2", "UR3"}
"""nvdisasm tells nothing of these."""
ARITHMETIC = {"IADD", "IADD3", "IMAD", "UIADD3", "UIMAD", "VIADD"}


@dataclass(frozen=True)
class Row:
    """One instruction. The target is relative to it; 0: it has none."""

    architecture: int
    low: str
    high: str
    text: str
    writes: frozenset[str]
    reads: frozenset[str]
    target: int = 0

    @property
    def name(self) -> str:
        """With all that follows it after dots, without the guard."""
        words = self.text.split()
        return words[words[0].startswith("@")]

    def line(self) -> str:
        """As a line of a file."""
        sets = (" ".join(sorted(names)) for names in (self.writes, self.reads))
        return "\t".join(
            (str(self.architecture), self.low, self.high, self.text, *sets, str(self.target))
        )


def row_of(line: str) -> Row:
    """What `line` wrote."""
    architecture, low, high, text, writes, reads, target = line.split("\t")
    sets = frozenset(writes.split()), frozenset(reads.split())
    return Row(int(architecture), low, high, text, *sets, int(target))


def columns(head: list[list[str]]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Of each group of registers: its letter, and the columns with the registers' numbers."""
    found = []
    for group, last in enumerate(head[-1]):
        cells = [row[group] if group < len(row) else "" for row in head]
        kind = next((KINDS[cell.strip()] for cell in cells if cell.strip() in KINDS), "")
        digits = [cell for cell in cells if not re.search(r"[A-Z]", cell)]
        numbers = []
        for column in range(last.find("#") + 1, len(last)):
            text = "".join(cell[column : column + 1] for cell in digits).strip()
            if text.isdigit():
                numbers.append((column, int(text)))
        found.append((kind, numbers))
    return found


def disassembled(nvdisasm: str, cubin: Path, architecture: int, *options: str) -> Iterator[Row]:
    """Every instruction of a cubin."""
    command = [nvdisasm, "-c", "-hex", "-lrm", "narrow", *options, str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    section: list[tuple[int, Row]] = []
    labels: dict[str, int] = {}
    head: list[list[str]] = []
    named = None
    at, low, text, waiting = 0, "", "", list[str]()
    for line in done.stdout.splitlines():
        left, _, right = line.rpartition("// ")
        left = left or line
        if line.startswith("\t.section\t"):
            yield from targeted(section, labels)
            section, labels, head, named = [], {}, [], None
        elif named is None and right.startswith("|"):
            head.append(right[1:].split("|"))
            if "#" in right:
                named = columns(head)
        if LABEL.match(left):
            waiting.append(left.strip().rstrip(":"))
        elif match := LOW.match(left):
            at, text, low = int(match[1], 16), match[2], match[3]
            labels |= dict.fromkeys(waiting, at)
            waiting = []
        elif match := HIGH.match(left):
            writes, reads = set(), set()
            for (kind, numbers), cell in zip(named or (), right[1:].split("|"), strict=False):
                for column, number in numbers:
                    mark = cell[column : column + 1]
                    if mark and mark in "^x":
                        writes.add(f"{kind}{number}")
                    if mark and mark in "vx":
                        reads.add(f"{kind}{number}")
            plain = " ".join(text.replace(".reuse", "").split())
            row = Row(architecture, low, match[1], plain, frozenset(writes), frozenset(reads))
            section.append((at, row))
    yield from targeted(section, labels)


def targeted(section: list[tuple[int, Row]], labels: dict[str, int]) -> Iterator[Row]:
    """With the targets of branches, as far as they lie in the section."""
    for at, row in section:
        label = re.search(r"`\((?:\.text\.)?([\w$.]+)\)?", row.text)
        target = labels.get(label[1]) if label and "BRX" not in row.name else None
        relative = target is not None and row.name.split(".")[0] not in ("RET", "LEPC")
        yield replace(row, target=(target or 0) - at) if relative else row


def decoded(rows: Iterable[Row]) -> list[list[str]]:
    """What `read_code decode` prints of each."""
    lines = "".join(f"{row.architecture} {row.low} {row.high}\n" for row in rows)
    command = [str(BUILD / "read_code"), "decode"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def integers(text: str) -> set[int]:
    """The numbers in hexadecimal, as 32 and 64 bits, and the offsets in banks."""
    found = {int(word, 16) for word in re.findall(r"-?0x[0-9a-f]+", text)}
    return {number & mask for number in found for mask in (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)}


def signs(row: Row) -> str:
    """Of a sum's operands, or of a product and what is added."""
    operands = row.text.partition(row.name)[2].split(",")[1:]
    plain = [o.strip() for o in operands if not re.fullmatch(r"\s*!?U?P[T\d]", o)]
    marks = ["-" if re.match(r"[-~](?!0x)", operand) else "+" for operand in plain]
    if "IMAD" in row.name:
        marks[:2] = ["-" if marks[:2].count("-") == 1 else "+", "+"]
    return "".join(marks)


def disagreement(row: Row, found: list[str]) -> str:
    """What differs; "" for nothing. Instructions that are not listed agree with all."""
    operation, writes, maybe, reads, numbers, marks, target = found
    base = row.name.split(".")[0]
    if operation == "0" or base in INEXACT or ".DIV" in row.name or base.startswith("UTMA"):
        return ""
    surely, seen = set(writes.split()) - HIDDEN, set(reads.split())
    if not surely <= row.writes <= surely | set(maybe.split()):
        return "writes"
    if base != "SHFL" and "gdesc" not in row.text and not row.reads <= seen:
        return "reads"
    wanted = {f"c{int(b, 16)}:{int(o or '0', 16)}" for b, o in CONSTANT.findall(row.text)}
    named = "c[`" in row.text  # by a symbol
    if not named and {word for word in numbers.split() if word[0] == "c"} != wanted:
        return "constants"
    if base in ARITHMETIC and not {
        int(word) for word in numbers.split() if word.isdigit()
    } <= integers(row.text):
        return "numbers"
    if base in ARITHMETIC and any(
        text == "-" != found for text, found in zip(signs(row), marks, strict=False)
    ):
        return "signs"
    offset = re.search(r"\[U?R(?:\d+|Z)(?:\.\w+)?(?:\+UR\d+)?\+(-?0x[0-9a-f]+)\]", row.text)
    if offset and "c[" not in row.text and f"+{int(offset[1], 16)}" not in numbers.split():
        return "offset"
    if row.target and int(target) != row.target:
        return "target"
    return ""


CONSTANT = re.compile(r"c\[0x([0-9a-f]+)\]\[(?:U?R(?:\d+|Z)\+?)?(?:0x([0-9a-f]+))?\]")


def disagreements(rows: list[Row]) -> list[str]:
    """Of all that are listed."""
    pairs = zip(rows, decoded(rows), strict=True)
    told = ((disagreement(row, found), row, found) for row, found in pairs)
    return [f"{what}: {row.line()} but {found}" for what, row, found in told if what]


def unlisted(rows: list[Row]) -> set[str]:
    """The instructions that the table of their architecture lacks."""
    pairs = zip(rows, decoded(rows), strict=True)
    return {row.name.split(".")[0] for row, found in pairs if found[0] == "0"}
