"""A simulator that notes whether a system kept to its budget."""

from pump.sim.engine import Engine
from pump.sim.link import Link
from pump.sim.simulator import STEADY, Issued, Simulator


class Budgeted(Simulator):
    """In `over_budget`: more pages than the budget has were resident in a steady step.

    What a kernel faults in is resident as long as kernels that use it are queued, whatever fits.
    """

    def __init__(self, engine: Engine, link: Link, policy: str, between_ns: float = 0.0) -> None:
        super().__init__(engine, link, policy, between_ns)
        self.over_budget = False

    def retire(self, done: Issued) -> None:
        if self.warm <= len(self.marks) < self.warm + STEADY:
            stats = self.engine.stats()  # before what it used may leave
            self.over_budget |= stats.resident_bytes > stats.budget_bytes
        super().retire(done)
