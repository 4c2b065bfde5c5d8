"""C source of at most 120 columns, in the style of the repository's .clang-format."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 120


def listed(head: str, items: Sequence[str], tail: str) -> str:
    """`head` + `item, item)` + `tail`; what does not fit goes on below head's '(', its last."""
    lines = [head]
    margin = " " * len(head)
    for number, item in enumerate(items):
        last = number == len(items) - 1
        piece = item + (")" + tail if last else ",")
        fresh = lines[-1] in (head, margin)
        if not fresh and len(lines[-1]) + 1 + len(piece) > WIDTH:
            lines.append(margin + piece)
        else:
            lines[-1] += piece if fresh else " " + piece
    if not items:
        lines[-1] += ")" + tail
    return "\n".join(lines)


def header(words: str) -> str:
    """The first comment of a generated file."""
    return f"/* {words} Made by hooks/gen.py: change the tables under hooks/ instead. */\n"
