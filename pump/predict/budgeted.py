"""A simulator that notes whether a system kept to its budget."""

from pump.sim.simulator import STEADY, Issued, Simulator


class Budgeted(Simulator):
    """In `over_budget`: more pages than the budget has were resident in a steady step.

    What a kernel faults in is resident as long as kernels that use it are queued, whatever fits.
    """

    over_budget = False

    def retire(self, done: Issued) -> None:
        if self.warm <= len(self.marks) < self.warm + STEADY:
            stats = self.engine.stats()  # before what it used may leave
            self.over_budget |= stats.resident_bytes > stats.budget_bytes
        super().retire(done)
