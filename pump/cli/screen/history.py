"""What happened in the last minutes: of each program and of all together."""

from collections import deque
from collections.abc import Iterable

from pump.cli.screen.rows import Rates, Row

LOOKS = 240
"""As many as a wide terminal shows."""
NONE = Rates(0, 0, 0)


class History:
    """The rates of the latest looks."""

    def __init__(self) -> None:
        self._all: deque[Rates] = deque(maxlen=LOOKS)
        self._each: dict[str, deque[Rates]] = {}

    def add(self, seen: Iterable[Row]) -> None:
        """One look. Who is no longer seen is forgotten."""
        rates = {row.key: row.rates or NONE for row in seen}
        self._each = {key: self._each.get(key, deque(maxlen=LOOKS)) for key in rates}
        for key, each in rates.items():
            self._each[key].append(each)
        self._all.append(together(list(rates.values())))

    def of(self, key: str | None) -> list[Rates]:
        """A program's, the latest last; None: of all together."""
        return list(self._all if key is None else self._each.get(key, ()))


def together(rates: list[Rates]) -> Rates:
    """What moved in all, and the mean of the time spent waiting."""
    count = len(rates) or 1
    return Rates(
        sum(each.brought for each in rates),
        sum(each.taken for each in rates),
        sum(each.waiting for each in rates) / count,
    )
