"""How many pages with bytes come ahead of need, and the rules for it.

`docs/engine-rules.md` has the terms.

Depth is how many pages may be ready: any number at first. It changes from round to round. A round
is the operations of a period:

- It begins with the first operation issued on track once the round before ended or is void.
- It ends with the first operation after that at which p has reached the first one's position, or
  passed it. The next round begins with that one.
- It is void at an operation that is a surprise or a start (the sequence), or after which the
  engine is off track. That operation begins no round.
- It is idle if no page was ready whenever lane in 3 had a page with bytes and room for it.
- It settles if the one before was idle or void, or if depth was raised when that one ended. Of a
  round that settles, and of an idle one, nothing is learnt.
- While the engine is eager, any number may be ready; what is learnt meanwhile counts later.
- It is late if an operation became late in it (had to be held), else calm. Depth was reached if
  left was 0 when lane in 3 had a page with bytes and room for it.

The least depth is what `run_pages` and `near_pages` are together when it is not quiet. When a
round ends that is neither idle nor settles:

1. The least depth, if it was raised (2), is what it was at first once as many such rounds have
   ended as it was raised for.
2. The round was late. If depth was reached, the least depth is raised to depth + depth / 3 + 1,
   for 16 rounds, the next time for four times as many, and so on. Depth is the least depth then,
   if the round before that counted was calm. In all other cases depth is any number.
3. It was calm, and so were the two before that counted. Depth is three quarters of the depth that
   it was, or of the most pages that were ready when lane in 3 had a page with bytes and room for
   it, whichever is less (less a quarter of it, rounded down); but no less than the least depth.

If a round is void though depth was reached in it, and it was late so far, depth is any number, and
no round before counts as calm.
"""

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
        self.eager = False  # any number of pages may be ready
        self.pages: float = inf  # else so many
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
        return inf if self.eager else max(0, self.pages - ready)

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
