"""The held policy `ahead` in plain Python."""

from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice, takewhile

from pump.sim.engine import (
    CLEAN,
    DEAD,
    EARLY,
    EVICT,
    FILL,
    HOLD,
    IN_PLACE,
    LANE_IN,
    READ,
    RUN,
    RUN_SHORT,
    Move,
    Settings,
    Stats,
)
from tests.reference.demand import (
    BYTES,
    NEAR_OPERATIONS,
    NEVER,
    PLACE,
    PREDICTED,
    RESTING,
    SURE,
    WAITING,
    Demand,
    Time,
)
from tests.reference.engine import (
    ABSENT,
    EVICTING,
    FAILURES_MOST,
    FILLING,
    MODES,
    MUCH,
    RESIDENT,
    Operation,
    Page,
)
from tests.reference.sequence import Past

Leaver = tuple[Page | None, Time]  # the first to leave of those whose next touch is after that time
CARRIED_FEW = 8  # of 64 live pages that leave: so many with their bytes are few
HEIRS = 64  # with more frames to spare nobody asks whose the next one is


class Held(Demand):
    """Operations wait for their pages; the sequence learnt says what comes next."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.waiting: dict[int, Operation] = {}  # in the order in which they were issued
        self.running = 0
        self.overtaken = False  # an operation was admitted before the first waiting one

    # --- operations ---

    def decide(self, operation: Operation) -> None:
        does = {page.number: done for page, done in operation.does.items()}
        live = self.live + sum(not page.live for page in operation.does)
        surprises = self.sequence.surprises
        stay = self.holder_of and sum(self.carried) <= CARRIED_FEW
        staying = [page.number for page in operation.does if stay and not page.live]
        past = Past(operation.key, does, live)
        born = [page.number for page in operation.does if self.is_born(page)]
        changed = self.sequence.issued(operation.serial, past, staying, born)
        surprise = changed is None or self.sequence.surprises > surprises
        told = operation.serial, self.sequence.p, surprise, self.sums.late_operations
        if self.allowed:
            self.trial.issued(*told)
        self.depth.issued(*told)
        self.serial = operation.serial
        self.waiting[operation.serial] = operation
        for page in operation.does:
            page.waiting.append(operation.serial)
            page.touched = operation.serial
            self.settle(page)
        for number in self.pages if changed is None else changed:
            if number in self.pages:
                self.settle(self.pages[number])

    def stop_waiting(self, operation: Operation) -> None:
        self.overtaken = operation.serial != next(iter(self.waiting))
        del self.waiting[operation.serial]
        for page in operation.pages():
            page.waiting.remove(operation.serial)
            self.settle(page)

    def is_stuck(self, operation: Operation) -> bool:
        """Nothing can change any more for the first waiting operation."""
        serial = operation.serial
        first = next(iter(self.waiting)) == serial
        ends = self.running and self.used > 0  # and may let a page go
        busy = self.moves or ends or self.used < self.frames
        return first and not busy and not self.first_to_leave((WAITING, serial), False, True)

    def admit(self, serial: int, at_once: bool = False) -> tuple[int, int]:
        operation = self.waiting.get(serial)
        if not operation:
            return RUN, 0
        absent = [page for page in operation.pages() if page.state != RESIDENT]
        missing = [page for page in absent if not self.rests(page)]
        moving = any(page.state != ABSENT for page in missing)
        hopeless = all(page.failures >= FAILURES_MOST for page in missing)
        if missing and (moving or not (at_once or hopeless or self.is_stuck(operation))):
            self.sums.late_operations += not operation.late
            operation.late = True
            return HOLD, 0
        self.stop_waiting(operation)
        for page in operation.pages():
            if page.state == ABSENT and self.settings.faults and not page.in_place:
                self.put(page, RESIDENT)
                self.sums.faulted_bytes += self.size
            elif page.state == ABSENT and operation.does[page] & MUCH:
                self.sums.in_place_bytes += self.size
                written = operation.does[page] & MODES != READ
                self.sums.in_place_written_bytes += self.size * written
            page.failures = 0
            page.pins += 1
        self.mark(operation)
        self.running += 1
        self.sums.short_operations += bool(missing)
        return RUN_SHORT if missing else RUN, 0

    def retired(self, serial: int, now: int = 0) -> None:
        operation = self.operations.pop(serial, None)
        if not operation:
            return
        if serial in self.waiting:
            self.stop_waiting(operation)
            return
        self.running -= 1
        for page in operation.pages():
            page.pins -= 1
            self.settle(page)
        if self.trial.retired(serial, now, self.sums.late_operations):
            for page in self.pages.values():
                self.settle(page)

    def in_place(self, mode: int) -> None:
        super().in_place(mode)
        for page in self.pages.values():
            self.settle(page)

    def eager(self, eager: bool) -> None:
        self.depth.eager = eager

    # --- moves ---

    def next(self, lane: int) -> Move | None:
        return self.fill() if lane == LANE_IN else self.evict()

    def fill(self) -> Move | None:
        most = min(self.run_pages, self.frames - self.used)
        if most <= 0:
            return None
        coming = self.demand[BYTES]
        room = self.room(coming[0][2]) if coming else 0
        if room:
            self.depth.asked(self.ready)
        come = int(min(most, room, self.depth.left(self.ready)))
        if self.demand[SURE]:
            page = self.pages[self.demand[SURE][0][-1]]
            dead = self.coming_flags(page, self.time(page)) & DEAD
            patient = self.running >= NEAR_OPERATIONS and not self.overtaken
            if not (come and dead and patient):
                return self.grant(SURE, most)
        elif (place := self.wanted_at(PLACE, 0)) <= self.soon and not (
            come and self.wanted_at(BYTES, 0) <= place
        ):
            return self.grant(PLACE, most)
        if come:
            return self.grant(BYTES, come)
        resting = None if room else self.demand[RESTING]
        come = min(most, self.room(self.sequence.newest + 1)) if resting else 0
        return self.grant(RESTING, come) if come else None

    def grant(self, kind: int, most: int) -> Move:
        """A fill of the first page demanded so and of those that follow it, so many at most."""
        page = self.pages[self.demand[kind][0][-1]]
        time = self.time(page)
        flags = self.coming_flags(page, time)
        pages: list[Page] = []
        for other in self.following(page):
            wanted = other.comes and other.comes[:3] == (kind, *time)
            if len(pages) == most or not wanted or self.coming_flags(other, time) != flags:
                break
            pages.append(other)
        return self.give_out(pages, FILL, flags, time)

    def coming_flags(self, page: Page, time: Time) -> int:
        kind, when = time
        if kind == WAITING:
            return self.fill_flags(page, self.waiting[when].does[page])
        return self.fill_flags(page, self.sequence.past[when].does[page.number])

    def evict_flags(self, page: Page) -> int:
        return super().evict_flags(page) | (IN_PLACE if self.is_streamed(page) else 0)

    # --- who leaves ---

    def first_to_leave(self, after: Time, *lives: bool) -> Page | None:
        """Of the pages, dead or live ones, whose next touch is after that time."""
        for live in lives:
            i = self.leaving.bisect_left((live,))
            page = self.pages[self.leaving[i][-1]] if i < len(self.leaving) else None
            if page and page.live == live and self.leave_time(page) > after:
                return page
        return None

    def leaves(self) -> tuple[Leaver, Time]:
        """Who leaves, and when what it leaves for is wanted."""
        spare = self.spare
        first: Time = WAITING, next(iter(self.waiting), 0)
        if spare < 0:
            return (self.first_to_leave(first, False, True), NEVER), first
        wanted = self.wanted_at(SURE, spare)
        leaver = self.leaves_for_waiting(spare, wanted)
        if leaver[0]:
            return leaver, wanted
        return self.leaves_early(spare), self.soon

    def first_of(self, after: Time, live: bool) -> Leaver:
        return self.first_to_leave(after, live), after

    def leaves_for_waiting(self, spare: int, wanted: Time) -> Leaver:
        """Live pages leave only if dead ones that may leave later would not do."""
        leaver = self.first_of(wanted, live=False)
        if leaver[0]:
            return leaver
        if not (self.overtaken or not (self.running or self.moves)):
            wanted = self.wanted_at(SURE, spare + self.idle)
        return self.first_of(wanted, live=True)

    def leaves_early(self, spare: int) -> Leaver:
        """For what is predicted."""
        sure, coming = len(self.demand[SURE]), self.demand[BYTES]
        free = max(0, spare - sure)
        room = self.room(coming[0][2]) if coming else 0
        leaver: Leaver = None, NEVER
        come = min(room, self.depth.left(self.ready))
        if free < self.near_pages and come > free and free < len(coming):
            leaver = self.first_of(min(self.wanted_at(BYTES, free), self.soon), live=False)
        if not leaver[0] and free < self.near_pages and self.wanted_at(PLACE, free) <= self.soon:
            leaver = self.first_of(self.soon, live=False)
        if not leaver[0] and sure + room < self.near_pages and room < len(coming):
            leaver = self.first_of(self.wanted_at(BYTES, room), live=True)
        if not leaver[0] and NEVER != (crowded := self.crowded()) <= self.wanted_at(BYTES, 0):
            leaver = self.first_of(crowded, live=True)
        return leaver

    @property
    def spare(self) -> int:
        return self.frames - (self.used - self.count[EVICTING])

    def heirs(self) -> Iterator[Page]:
        """The pages that come, in the order in which frames are for them."""
        sure, soon = self.demand[SURE], self.soon
        places = takewhile(lambda key: key[1:3] <= soon, self.demand[PLACE])
        coming = merge(self.demand[BYTES], places, key=lambda key: (key[1:3], -key[0], key[-1]))
        return (self.pages[key[-1]] for key in chain(sure, coming))

    def heir(self) -> Page | None:
        """The page that comes into the frame that is the next to be free."""
        return (
            next(islice(self.heirs(), self.spare, None), None) if 0 <= self.spare < HEIRS else None
        )

    def holder_for(self, comes: Page) -> Page | None:
        """Who may leave and has the frame on which that page has a claim."""
        start = self.holder_of(comes.number * self.size) if self.holder_of else 0
        page = self.pages.get(start // self.size)
        return page if page and page.may_leave() else None

    def dead_holder(self) -> tuple[Page, Time] | None:
        """The same, dead, of the first dead page to come that has such a claim, and its time."""
        if not self.holder_of or self.spare < 0:
            return None
        for heir in islice(self.heirs(), min(self.near_pages + self.run_pages, HEIRS)):
            page = None if heir.live else self.holder_for(heir)
            if page and not page.live and self.leave_time(page) > max(self.time(heir), self.soon):
                return page, self.time(heir)
        return None

    def holder_instead(self, leaver: Leaver) -> Page | None:
        """Who may leave in its place, because the heir has a claim on that frame."""
        first, after = leaver
        heir = self.heir() if self.holder_of else None
        if not first or not heir:
            return None
        page = self.holder_for(heir)
        if not page or self.leave_time(page) <= max(after, self.time(heir)):
            return None
        if not page.live:
            return None if first.live else page
        crowd = not heir.live and (first.live or self.crowded() != NEVER)
        return page if crowd and self.leave_time(page) > self.peak() else None

    def evict(self) -> Move | None:
        leaver, wanted = self.leaves()
        own = None if leaver[0] and not leaver[0].live else self.dead_holder()
        instead, wanted = own or (self.holder_instead(leaver), wanted)
        page = instead or leaver[0]
        if not page:
            return None

        def kind(other: Page) -> tuple[object, ...]:
            return other.may_leave(), other.live, other.dirty, self.evict_flags(other)

        sheds = not instead and -self.spare > self.run
        most = min(-self.spare, self.shed) if sheds else 1 if instead else self.run_pages
        soonest = self.soonest(page) if sheds else self.leave_time(page)
        pages = [page]
        for step in (1, -1) if most > self.run_pages else (1,):
            for other in islice(self.following(page, step), 1, None):
                late = soonest <= self.leave_time(other) <= self.leave_time(page)
                if len(pages) == most or kind(other) != kind(page) or not late:
                    break
                pages.append(other)
        pages.sort(key=lambda page: page.number)
        flags = self.evict_flags(page)
        carries = not flags & (DEAD | CLEAN)
        if carries:
            self.sent_at = self.serial
        if page.live:
            self.carried = [*self.carried, *([carries] * len(pages))][-64:]
        return self.give_out(pages, EVICT, flags, wanted)

    def soonest(self, page: Page) -> Time:
        """About the leave time of the last of those by which the budget is passed."""
        kind, when = self.leave_time(page)
        kept = self.frames - self.spare
        ahead = max(0, when - (self.sequence.p or 0)) if kind == PREDICTED else 0
        return kind, when - ahead * -self.spare // kept

    def give_out(self, pages: list[Page], kind: int, flags: int, wanted: Time) -> Move:
        flags |= EARLY if wanted[0] == PREDICTED else 0
        start, size = pages[0].number * self.size, len(pages) * self.size
        move = Move(next(self.ids), start, size, 0, kind, flags)
        self.moves[move.id] = move
        for page in pages:
            self.put(page, FILLING if kind == FILL else EVICTING)
            page.move = move.id
            self.settle(page)
        return move

    def moved(self, move: int, ok: bool = True) -> None:
        done = self.moves.pop(move, None)
        if not done:
            return
        pages = [page for page in self.span(done.start, done.bytes) if page.move == move]
        for page in pages:
            page.move = 0
            self.put(page, RESIDENT if (done.kind == FILL) == ok else ABSENT)
            page.failures = 0 if ok else page.failures + 1
            if ok:
                page.dirty = False
                page.in_place = bool(done.flags & IN_PLACE)
                if done.kind == EVICT:
                    self.sums.useless_bytes += self.size * page.untouched
                    page.untouched = False
                elif done.flags & DEAD:
                    page.live = False
                else:
                    page.untouched = True
            self.settle(page)
        if ok:
            size = self.size * len(pages)
            self.count_move(done, size)
            if done.flags & EARLY and done.kind == FILL and not done.flags & DEAD:
                self.sums.early_bytes += size

    def stats(self) -> Stats:
        sums = super().stats()
        sums.predicted, sums.surprises = self.sequence.predicted, self.sequence.surprises
        return sums
