"""What `tests/programs/counters.h` prints."""


def counters_in(output: str) -> dict[str, int]:
    """The lines "counter NAME VALUE" of an output; others are nobody's here."""
    lines = output.splitlines()
    told = (line.split() for line in lines if line.startswith("counter "))
    return {name: int(value) for _, name, value in told}
