"""Sizes in bytes, as people write and read them."""

import re

KIB, MIB, GIB, TIB = (1 << shift for shift in (10, 20, 30, 40))

MOST = 1 << 64
_UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}


def parse_size(text: str) -> int:
    """Bytes meant by `8GiB`, `512M`, `1.5g` or `1073741824`; units are powers of 1024.

    Raises ValueError for anything else, and for sizes under one byte or of more than 64 bits.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(?:i?b)?", text.strip().lower())
    size = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 1 <= size < MOST:
        raise ValueError(f"`{text}` is not a size: write it like 8GiB, 512MiB or 1073741824")
    return int(size)


def parse_memory(text: str) -> int:
    """The same for memory of a device. Raises ValueError also for a size without a unit that is
    less than 1 MiB, of which ulms.so warns: nobody means so few bytes.
    """
    size = parse_size(text)
    if size < MIB and not text.strip()[-1].isalpha():
        raise ValueError(f"`{text}` would be bytes: write the unit, as in 8GiB")
    return size


def format_size(size: float) -> str:
    """A size in bytes in the largest binary unit that keeps it at 1 or more: `1.5 GiB`."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.0f} B"


def write_size(size: int) -> str:
    """The same without rounding, as `parse_size` reads it: `1536MiB`."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}"
