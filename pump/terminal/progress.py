"""How far something is, in lines, where no terminal shows it."""

import sys
import time
from collections import Counter
from collections.abc import Iterable


class Workloads:
    """Counts runs down. `told`: what is done is said on standard error."""

    def __init__(self, runs: Iterable[str], told: bool) -> None:
        self.left = Counter(runs)
        self.told = told
        self.begun = time.monotonic()

    def done(self, name: str) -> None:
        """One run of a workload is."""
        self.left[name] -= 1
        if self.told and not self.left[name]:
            seconds = time.monotonic() - self.begun
            print(f"{name}: done after {seconds:.0f} s", file=sys.stderr, flush=True)


FIRST_QUARTER = 0.4
"""Of all the time, what the first quarter of runs takes: budgets grow, and the more fits the less
is to be played.
"""


class Runs:
    """Says how many runs of a step there will be and, when a quarter of them is done, how long the
    others will take. `told`: on standard error.
    """

    def __init__(self, told: bool) -> None:
        self.told = told
        self.begun = time.monotonic()

    def done(self, number: int, runs: int) -> None:
        """So many are; called for each, and for none."""
        if number == 0:
            self.tell(f"playing the step with {runs} budgets")
        elif number == -(-runs // 4):
            seconds = time.monotonic() - self.begun
            left = seconds / FIRST_QUARTER - seconds
            self.tell(f"{number} are played after {seconds:.0f} s: about {left:.0f} s more")

    def tell(self, line: str) -> None:
        """If there is somebody to tell."""
        if self.told:
            print(f"pump: {line}", file=sys.stderr, flush=True)
