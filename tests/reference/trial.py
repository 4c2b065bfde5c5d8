"""Whether streamed pages are used where they lie: laps of each way are timed.

docs/engine-rules.md, "In place", has the rules.
"""

FILLS, LEAVES, DECIDED = range(3)
SETTLE_LAPS = 2  # of each way, before those that count
TIMED_LAPS = 2  # of these the shortest
PART = 8  # of a period: less is the same
GAIN = 16  # one in so many ns at least
PATIENCE = 2  # periods without a lap like it
AGAIN = 64  # laps, until both ways are tried once more
RARER = 4  # so many times as many until the next time


class Trial:
    """Told of operations as they are issued and as they end.

    `leave_streamed` is the way that is taken.
    """

    def __init__(self) -> None:
        self.step = FILLS
        self.laps = 0  # of this step
        self.again = AGAIN  # so many after what was decided both ways are tried anew
        self.close = False  # what was decided: neither way takes much longer
        self.leave_streamed = False
        self.period = 0  # of the laps compared
        self.seen = 0  # serial that ended the latest lap like them
        self.times: list[int] = []  # ns of the laps of this step that count
        self.filled = 0  # the shortest in which all pages came
        self.void()

    def void(self) -> None:
        self.first = self.last = 0  # serials that begin and end the lap under way
        self.begun = 0  # when the first had ended, ns

    def issued(self, now: int, p: int | None, surprise: bool, late: int) -> None:
        """`late`: operations that were, so far."""
        if surprise or p is None:
            self.void()
        elif not self.first:
            self.first, self.length, self.late = now, now - p, late
        elif not self.last and p >= self.first:
            self.last = now

    def retired(self, serial: int, now: int, late: int) -> bool:
        """True: the way is another."""
        was = self.leave_streamed
        if not self.first or serial < self.first or not now:
            return False
        self.begun = self.begun or now
        if not self.last or serial < self.last:
            return False
        self.judge(now - self.begun, late > self.late)
        self.void()
        return self.leave_streamed != was

    def judge(self, elapsed: int, late: bool) -> None:
        """Nothing is tried while no operation waits: then moves cost nothing."""
        other = abs(self.length - self.period) > self.period // PART
        if other and self.last - self.seen <= PATIENCE * self.period:
            return
        self.seen = self.last
        if other:
            self.try_both()
            self.period, self.again = self.length, AGAIN
        if self.step == FILLS and not late:
            return
        self.laps += 1
        if self.step == DECIDED:
            if self.close and self.laps >= self.again:
                self.try_both()
                self.again *= RARER
            return
        if self.laps <= SETTLE_LAPS:
            return
        self.times.append(elapsed)
        if len(self.times) < TIMED_LAPS:
            return
        shortest, self.laps, self.times = min(self.times), 0, []
        if self.step == FILLS:
            self.filled, self.leave_streamed, self.step = shortest, True, LEAVES
        else:
            self.leave_streamed, self.step = shortest < self.filled - self.filled // GAIN, DECIDED
            less, more = sorted((shortest, self.filled))
            self.close = more <= less + less // 2

    def try_both(self) -> None:
        self.step, self.laps, self.leave_streamed, self.times = FILLS, 0, False, []
