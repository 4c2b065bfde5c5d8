"""How many pages with bytes come ahead of need. docs/engine-rules.md, "Depth", has the rules."""

from math import inf

CALM = 2  # rounds in a row without a late operation, before fewer are tried
PART = 4  # a quarter fewer
AGAIN = 16  # rounds, until as few are tried again as were too few
RARER = 4  # so many times as many until the next time


class Depth:
    """Told of operations as they are issued, and asked how many pages more may come.

    `least_of_all`: pages; fewer are never tried.
    """

    def __init__(self, least_of_all: int) -> None:
        self.least = self.least_of_all = least_of_all
        self.pages: float = inf  # so many may be ready
        self.rounds = 0  # until fewer than `least` are tried; 0: it is the least of all
        self.again = AGAIN
        self.calm = 0  # rounds in a row in which no operation was late
        self.settles = False  # the round counts for nothing: too few were ready when it began
        self.begin(0, 0)

    def begin(self, first: int, late: int) -> None:
        """A round, with that serial; 0: none is under way. `late`: operations that were so far."""
        self.first, self.late = first, late
        self.most = 0  # pages ready at once
        self.reached = False

    def left(self, ready: int) -> float:
        """So many pages more may come."""
        return max(0, self.pages - ready)

    def asked(self, ready: int) -> None:
        """One might come: there is room for it."""
        self.most = max(self.most, ready)
        self.reached |= not self.left(ready)

    def issued(self, now: int, p: int | None, surprise: bool, late: int) -> None:
        goes_on = not surprise and p is not None
        if goes_on and self.first and p is not None and p < self.first:
            return
        whole, settled = bool(goes_on and self.first and self.most), not self.settles
        self.settles = not whole
        if whole and settled:
            self.judge(late > self.late)
        elif not whole and self.first and late > self.late and self.reached:
            self.pages, self.calm = inf, 0
        self.begin(now if goes_on else 0, late)

    def judge(self, late: bool) -> None:
        if self.rounds:
            self.rounds -= 1
            if not self.rounds:
                self.least = self.least_of_all
        if late and self.reached:
            self.least = int(self.pages) + int(self.pages) // (PART - 1) + 1
            self.rounds, self.again = self.again, self.again * RARER
        if late:
            pages = self.least if self.reached and self.calm else inf
            self.settles = pages > self.pages
            self.pages = pages
        self.calm = 0 if late else self.calm + 1
        if self.calm > CALM:
            most = int(min(self.most, self.pages))
            self.pages = max(most - most // PART, self.least)
