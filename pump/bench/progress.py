"""A line a workload, where no terminal shows how far a comparison is."""

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
