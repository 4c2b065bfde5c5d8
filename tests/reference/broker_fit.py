"""Whose needs fit, and whether turns are taken: rules of the broker's policy.

Who fits. A group is *over* if the needs of its awake tenants are above its memory. All are over if
the groups' needs (of those that are over: their memory) are together above the capacity. It is
*crowded* if any is over. A tenant that is over is a *taker*, unless it is *small*: it needs at most
an eighth of the room, and it and the awake ones that need less (or the same, with a lower id) need
at most a quarter together. The room is the capacity if all are over (the group's memory, if it is
over too and that is less), and then the others are all; else it is the group's memory, and the
others are its.

Turns begin. While it is crowded and the takers take no turns, refills are summed up for 500 ms or a
bit more. If four times in a row they took more than 15 % of the link's time, or a tenant stalled
for more than half of the time, the takers take turns from then on: until it has not been crowded
for 10 s, or the needs of all fell by more than an eighth. The turns count only while it is crowded
(*in turns*).

Trial. While two or more are awake, and no turns began because of refills or stalls, they co-run and
then take turns (crowded: the takers; else all, alone). If others are awake, or it is crowded and
was not or the reverse, all begins anew. Of each way 100 ms do not count, or a round: a turn of each
that takes one; 200 ms a tenant (crowded: 1 s), or two rounds, do. Of each tenant that retired
something in the first and used time in both, operations a charged ns are compared (turns over
co-running, at most 64). Turns are taken (not crowded: *exclusive* ones) if the mean of these, times
the charged part of the time in turns over that in the other, is above 1 + 1/32; 1 - 1/32 if one
that is awake is interactive. It is tried again after 10 s, then after 4 times as long each time, at
most an hour.
"""

from tests.reference.broker_state import MS, Tenant, Window
from tests.reference.broker_turns import Turns


class Fit(Turns):
    """Who fits; co-run or turns."""

    def who_fits(self) -> None:
        was, sums = self.crowded, []
        for g in self.groups.values():
            need = sum(t.told.need for t in self.wakeful() if t.group is g)
            g.over = 0 < g.set.memory < need
            sums.append(g.set.memory if g.over else need)
        all_over = sum(sums) > self.room
        self.crowded = all_over or any(t.group.over for t in self.tenants.values())
        for t in self.tenants.values():
            rooms = ([self.room] if all_over else []) + (
                [t.group.set.memory] if t.group.over else []
            )
            t.taker = bool(rooms) and not self.small(t, min(rooms), all_over)
        if was and not self.crowded:
            self.fits_since = self.now
        need = self.needs()
        calm = not self.crowded and self.now - self.fits_since >= 10_000 * MS
        if calm or need < self.taking_need - self.taking_need // 8:
            self.taking = False

    def small(self, t: Tenant, room: int, all_over: bool) -> bool:
        less = [
            o.told.need
            for o in self.wakeful()
            if (all_over or o.group is t.group) and (o.told.need, o.id) < (t.told.need, t.id)
        ]
        return t.told.need <= room // 8 and t.told.need + sum(less) <= room // 4

    def thrash(self) -> None:
        if not self.crowded or self.taking:
            self.look, self.hot, self.refilled = None, 0, 0
            return
        if self.look is None:
            self.look, self.refilled = self.now, 0
            self.looked = self.stalls()
        span = self.now - self.look
        if span < 500 * MS:
            return
        stalled = any(
            t.told.stalled_ns - self.looked.get(t.id, 0) > span // 2 for t in self.tenants.values()
        )
        hot = stalled or self.refilled * 1000 * MS // self.rate > span // 100 * 15
        self.hot = self.hot + 1 if hot else 0
        self.look, self.refilled = self.now, 0
        self.looked = self.stalls()
        if self.hot == 4:
            self.taking = True
            self.taking_need = self.needs()
            self.look, self.hot = None, 0

    def stalls(self) -> dict[int, int]:
        return {t.id: t.told.stalled_ns for t in self.tenants.values()}

    def trial(self) -> None:
        found = frozenset(t.id for t in self.wakeful())
        if (self.in_turns and not self.tried) or len(found) < 2:
            found = frozenset()
        if (found, self.crowded) != (self.set, self.set_crowded):
            if self.tried:
                self.taking, self.taking_need = False, 0
            self.set, self.set_crowded, self.again = found, self.crowded, 10_000 * MS
            self.exclusive = self.tried = False
            if found:
                self.try_way("corun")
        if not found or self.now < self.at:
            return
        if self.step == "decided":
            self.try_way("corun")
        elif self.begin is None:
            self.begin = self.window()
            each = 1000 * MS if self.crowded else 200 * MS
            self.at = self.now + max(each * len(found), 2 * self.round())
        elif self.step == "corun":
            self.corun = self.since(self.begin)
            self.try_way("turns")
        else:
            self.take_turns(self.turns_win(self.corun, self.since(self.begin)))
            self.step, self.at = "decided", self.now + self.again
            self.again = min(4 * self.again, 3600_000 * MS)

    def round(self) -> int:
        return sum(self.turn_length(t) for t in self.wakeful() if self.takes(t))

    def take_turns(self, turns: bool) -> None:
        self.exclusive, self.tried = turns and not self.crowded, turns and self.crowded
        if self.crowded:
            self.taking = turns
            self.taking_need = self.needs() if turns else 0

    def try_way(self, step: str) -> None:
        self.take_turns(step == "turns")
        self.step, self.begin = step, None
        self.at = self.now + max(100 * MS, self.round())

    def window(self) -> Window:
        of = {t.id: (t.told.operations, t.charged_told) for t in self.tenants.values()}
        return self.now, self.charged, of

    def since(self, begin: Window) -> Window:
        wall, charged, of = self.window()
        less = {
            number: (
                max(0, of[number][0] - begin[2][number][0]),
                of[number][1] - begin[2][number][1],
            )
            for number in self.set
        }
        return wall - begin[0], charged - begin[1], less

    def turns_win(self, corun: Window, turns: Window) -> bool:
        ratios = []
        for number in corun[2]:
            (before, before_ns), (after, after_ns) = corun[2][number], turns[2][number]
            if before and before_ns and after_ns:
                rate = after * before_ns // after_ns
                ratios.append(min(rate * 1024 // before, 64 * 1024))
        if not ratios or not corun[1] or not turns[0]:
            return False
        score = sum(ratios) // len(ratios) * turns[1] // turns[0]
        quick = any(self.interactive(t) for t in self.wakeful())
        return score * corun[0] // corun[1] > (1024 - 32 if quick else 1024 + 32)
