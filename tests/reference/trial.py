"""Whether streamed pages are used where they lie: laps of each way are timed. The rules:

`docs/engine-rules.md` has the terms.

A lap is the operations of a period:

- It begins with the first operation issued on track once the lap before was judged or is void. Its
  length is the period then.
- Its last operation is the first one after that at which p has reached the first one's position,
  or passed it.
- It is void at an operation that is a surprise or a start, or after which the engine is off track.
  That operation begins no lap.
- It is judged when its last operation, or a later one, retires. Its time goes from when its first
  one, or a later one, retired, to then. Retirements at an unknown time (0) are overlooked.

What is tried, each time a lap is judged:

1. All pages are filled. Laps in which no operation became late (had to be held) count for nothing.
   Of the others the third and the fourth are timed, and the shorter counts.
2. Streamed pages are left. Of the laps from then on the third and the fourth are timed, and the
   shorter counts.
3. Decided. Streamed pages are left on if 2's time is shorter than 1's by more than a 16th of 1's.
   Else pages are filled. If the longer of both is no more than the shorter and half of it, all
   this begins anew with 1 after 64 laps, then after four times as many each time (64 again for
   laps of another length).

All this compares laps of about one length, that of the lap with which 1 began: those that differ
from it by more than an eighth of it, in operations, are others, and count for nothing. But if the
last operation of another lap comes more than two such lengths after that of the latest one alike,
all of it begins anew with 1 and with that lap, whose length is the one to compare with from then
on. (So it begins for the first time, too.) That lap is the first of 1 if an operation was late in
it.
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
