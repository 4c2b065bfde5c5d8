"""Virtual time: a program, a device and a link around an engine. No clock and no chance.

The program's thread issues in order. It is held while the engine holds an operation, and else runs
ahead of the device, which runs one operation at a time, in order. A kernel that uses pages in place
takes as long as its own work or their bytes, whichever is longer, and nothing moves meanwhile.
What the program computes itself between two operations takes no time, or the same each time; where
it waits for a step's results it begins the next one so much later.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

from pump.sim.backend import Advice, Frames
from pump.sim.engine import (
    FILL,
    HOLD,
    IN_PLACE,
    LANE_IN,
    LANE_OUT,
    RUN_SHORT,
    Engine,
    Move,
    Settings,
    Stats,
    holds,
)
from pump.sim.lane import LEAST_NS, Driver, Lane, UnderWay
from pump.sim.link import ACCESS, TOLD, Link, Part
from pump.sim.result import Result
from pump.sim.sequence import Event, Given, Operation, Sequence, page_runs

NEAR_NS = 1.0  # more than any rounding of moments
LAUNCHES_MOST = 1000
LAUNCH_NS = 5_000.0  # from the moment when a held operation may run to its start
WARM, LEARNING, STEADY, MORE = 2, 12, 4, 2
"""Steps: before those that count; as many where the policy learns and tries both ways; that count;
and more, because the program issues ahead."""
LAPS, LAPS_MOST = 8, 24
"""Laps by which both ways are compared; steps that they may take longer. A lap begins with what is
issued when the one before has ended: a program of short steps is one or more ahead then."""


class StuckError(RuntimeError):
    """Nothing is under way and the program is not at its end: a fault of the engine."""


@dataclass
class Issued:
    """An operation from its issue to its end."""

    serial: int
    key: int
    duration_ns: float
    ends_step: bool
    ready_ns: float = 0.0
    wait: int = 0
    faulted: int = 0  # bytes that its kernel brings
    in_place_ns: float = 0.0  # of its duration: it uses the link itself


class Mark(NamedTuple):
    """The end of a step."""

    ns: float
    busy_ns: float
    sums: Stats
    came: int
    back: int


class Pace(NamedTuple):
    """What the program's thread computes itself, nanoseconds: after each operation, and when it has
    waited for a step; 0: it waits for none.
    """

    between_ns: float = 0.0
    pause_ns: float = 0.0


AT_ONCE = Pace()
"""It takes no time."""


def settings_for(link: Link, policy: str, budget: int) -> Settings:
    """An engine's settings over a link."""
    faults = link.rate_fault > 0
    return Settings(
        policy,
        link.page_bytes,
        budget,
        link.run_bytes,
        link.ahead_bytes,
        link.keeps,
        faults,
        link.in_place,
    )


def learning_steps(sequence: Sequence) -> int:
    """So many steps until a policy that learns has done so."""
    ahead = LAUNCHES_MOST // max(1, sequence.operations())
    return LEARNING + min(LAPS * ahead, LAPS_MOST)


class Simulator:
    """One run. `engine` is fresh and has `settings_for` the link; `none` needs one that faults."""

    def __init__(self, engine: Engine, link: Link, policy: str, pace: Pace = AT_ONCE) -> None:
        self.engine = engine
        self.pace = pace
        self.awaited: Issued | None = None  # ends a step that the thread waits for
        self.computes_ns = 0.0  # until then
        self.over = False  # the program's thread is at its end
        held = holds(policy)
        self.link = link = link.under(held)
        self.learns = held
        self.warm = WARM  # steps
        # Kernels may take longer: they bring what they miss, or use what has left for it in place.
        self.lengthens = policy == "none"
        self.advice = Advice(link.page_bytes) if link.keep_ns else None
        self.now = 0.0
        self.held: Issued | None = None
        self.queue: deque[Issued] = deque()  # on their way to the device
        self.running: Issued | None = None
        self.end_ns = 0.0
        self.retired = 0  # serial of the last
        self.lanes = (Lane(LANE_IN, link.movers[0]), Lane(LANE_OUT, link.movers[1]))
        self.alone, self.beside = link.rates(both=False), link.rates(both=True)
        self.driver = Driver()
        self.frames: Frames | None = None
        self.moved: set[int] = {0}
        self.parts: dict[tuple[int, int, int, bool, int], tuple[Part, ...]] = {}
        self.told = 0  # times that the engine was told something
        self.holds = -1  # `told` when it held what is held; to give a move lets nothing run
        self.faulted = 0  # bytes, of what was issued
        self.used = self.written = 0  # bytes in place, of what was issued
        self.brought = 0  # bytes, of what has run
        self.busy_ns = 0.0  # operations that have run
        self.marks: list[Mark] = []

    def run(self, sequence: Sequence) -> Result:
        """Plays steps; the steady ones are the result. Raises StuckError."""
        if self.learns:
            self.warm = learning_steps(sequence)
        self.play(sequence)
        steady = self.marks[self.warm - 1 : self.warm + STEADY]
        before, after = steady[0], steady[-1]
        names = [field.name for field in fields(Stats)]
        sums = {name: getattr(after.sums, name) - getattr(before.sums, name) for name in names}
        steps_ns = tuple(end.ns - begin.ns for begin, end in pairwise(steady))
        came, back = after.came - before.came, after.back - before.back
        return Result(steps_ns, after.busy_ns - before.busy_ns, Stats(**sums), came, back)

    def each(self, sequence: Sequence) -> tuple[float, ...]:
        """Plays every recorded step: nanoseconds of each. Raises StuckError."""
        self.warm = len(sequence.steps)
        self.play(sequence)
        ends = [mark.ns for mark in self.marks[: self.warm]]
        return tuple(end - begin for begin, end in pairwise([0.0, *ends]))

    def play(self, sequence: Sequence) -> None:
        """All that the program does. Raises StuckError."""
        size = self.link.page_bytes
        runs = list(page_runs(sequence.blocks(), size))
        if self.link.handles:
            self.frames = Frames(size, self.link.handles.maps_away, sum(count for _, count in runs))
            self.engine.holder(self.frames.holder)
        for first, count in runs:
            self.engine.allocated(first * size, count * size)
        program = self.program(sequence)
        while self.act(program):
            while not self.advance():
                pass

    def program(self, sequence: Sequence) -> Iterator[tuple[Event, bool]]:
        """Everything the program does, and whether it ends a step."""
        for block in sequence.live:
            yield Given(block, True), False
        for operation in sequence.uploads():
            yield operation, False
        for step in sequence.play(self.warm + STEADY + MORE):
            last = max(i for i, event in enumerate(step) if isinstance(event, Operation))
            for i, event in enumerate(step):
                yield event, i == last

    def act(self, program: Iterator[tuple[Event, bool]]) -> bool:
        """Does everything that can be done at this moment. False: the program is at its end."""
        while self.issue(program) or self.start() or self.take_moves():
            pass
        return bool(self.held or self.queue or self.running or not self.over)

    # --- the program's thread ---

    def issue(self, program: Iterator[tuple[Event, bool]]) -> bool:
        """True: something was issued or admitted."""
        if self.held:
            return self.holds != self.told and self.admit(self.held, LAUNCH_NS)
        if not self.may_issue() or self.computes_ns > self.now + LEAST_NS:
            return False
        for event, ends_step in program:
            self.told += 1
            if isinstance(event, Operation):
                serial = self.engine.issued(event.key, event.touches)
                if self.advice:
                    self.advice.issued(event.touches)
                issued = Issued(serial, event.key, event.duration_ns, ends_step)
                if not self.admit(issued, 0):
                    self.held = issued
                return True
            self.engine.block(*event.block, event.live)
        self.over = True
        return False

    def may_issue(self) -> bool:
        """The device takes one more."""
        many = len(self.queue) + bool(self.running) >= LAUNCHES_MOST
        return not (self.over or self.awaited or many)

    def admit(self, issued: Issued, latency_ns: float) -> bool:
        """Sends an operation to the device. False: the engine holds it."""
        if issued.serial:
            verdict, issued.wait = self.engine.admit(issued.serial)
            if verdict == HOLD:
                self.holds = self.told
                return False
            self.told += 1
            if verdict == RUN_SHORT or self.lengthens:
                self.lengthen(issued)
        self.held = None
        self.computes_ns = self.now + self.pace.between_ns
        self.awaited = issued if issued.ends_step and self.pace.pause_ns else None
        issued.ready_ns = self.now + latency_ns
        self.queue.append(issued)
        return True

    def lengthen(self, issued: Issued) -> None:
        """By what its kernel faults in, and by what it uses where it lies."""
        stats = self.engine.stats()
        before, self.faulted = self.faulted, stats.faulted_bytes
        issued.faulted = self.faulted - before
        used = stats.in_place_bytes - self.used
        written = stats.in_place_written_bytes - self.written
        self.used, self.written = stats.in_place_bytes, stats.in_place_written_bytes
        in_place_ns = (used - written) / self.link.rate_read + written / self.link.rate_update
        issued.in_place_ns = in_place_ns
        issued.duration_ns = max(issued.duration_ns, in_place_ns)
        if issued.faulted:
            issued.duration_ns += issued.faulted / self.link.rate_fault

    # --- the device ---

    def start(self) -> bool:
        """True: an operation starts."""
        if self.running or not self.queue:
            return False
        first = self.queue[0]
        if first.ready_ns > self.now + LEAST_NS or first.wait not in self.moved:
            return False
        self.running = self.queue.popleft()
        self.end_ns = self.now + first.duration_ns
        return True

    def retire(self, done: Issued) -> None:
        self.running = None
        if done is self.awaited:
            self.awaited = None
            self.computes_ns = self.now + self.pace.pause_ns
        if done.serial:
            self.retired = done.serial
            self.engine.retired(done.serial, round(self.now))
            self.told += 1
        self.brought += done.faulted
        self.busy_ns += done.duration_ns
        if done.ends_step:
            sums = replace(self.engine.stats(), faulted_bytes=self.brought)
            frames = (self.frames.came, self.frames.back) if self.frames else (0, 0)
            self.marks.append(Mark(self.now, self.busy_ns, sums, *frames))

    # --- the link ---

    def take_moves(self) -> bool:
        """True: a lane takes or begins a move."""
        acted = False
        for number, lane in enumerate(self.lanes):
            if lane.takes and not lane.next and lane.refused != self.told:
                lane.next = self.engine.next(number)
                lane.refused = self.told
                if lane.next:
                    lane.refused = self.lanes[1 - number].refused = -1
            if lane.next and self.may_begin(lane.next):
                self.begin(number, lane.next)
                lane.next, acted = None, True
        return acted

    def begin(self, number: int, move: Move) -> None:
        lane, beside = self.lanes[number], bool(self.lanes[1 - number].moves)
        move = self.advice.begin(move) if self.advice else move
        mapped = self.frames.begin(move) if self.frames else 0
        self.lengthens = self.lengthens or bool(move.flags & IN_PLACE)
        one = UnderWay(move, deque(self.parts_of(move, beside, mapped)))
        lane.moves.append(one)
        self.settle(lane, one)

    def parts_of(self, move: Move, beside: bool, mapped: int) -> tuple[Part, ...]:
        """What `link.parts` says, which is the same for moves that are alike."""
        alike = move.bytes, move.kind, move.flags, beside, mapped
        if alike not in self.parts:
            self.parts[alike] = tuple(self.link.parts(move, beside, mapped))
        return self.parts[alike]

    def settle(self, lane: Lane, one: UnderWay) -> None:
        """A move has come to another part: goes through those that take no time."""
        while one.kind and one.left < LEAST_NS:
            if one.kind is TOLD:
                self.end(lane.number, one.move)
            one.pass_on()
        if not one.kind:
            lane.moves.remove(one)
        lane.look()
        if one.maps:
            self.driver.queue.append(one)
            if len(self.driver.queue) == 1:
                self.map_next()

    def end(self, number: int, move: Move) -> None:
        """A lane's move is done, as the engine sees it."""
        if self.frames:
            self.frames.end(move)
        self.moved.add(move.id)
        self.engine.moved(move.id)
        self.told += 1

    def map_next(self) -> None:
        """The driver's first comes to its next part."""
        self.driver.begins(self.lanes[1].copied)

    def pass_on(self, lane: Lane, one: UnderWay) -> bool:
        """A part of a move is done. False: that lets nothing else begin."""
        done, mapped, sent = one.kind, one.maps, one.sends
        one.pass_on()
        if done is ACCESS and one.kind is done:  # handles of a run are mapped in one call
            self.map_next()
            return False
        if sent and one.sends and one.left >= LEAST_NS:
            lane.send()
            return False
        if mapped:
            self.driver.queue.popleft()
        self.settle(lane, one)
        if mapped:
            self.map_next()
        return True

    def may_begin(self, move: Move) -> bool:
        return move.after <= self.retired

    def rates(self) -> tuple[float, float]:
        """Of bytes in and out; 0 while the operation that runs takes the link itself."""
        running = self.running
        if running and running.in_place_ns and self.alone_ns(running) < LEAST_NS:
            return 0.0, 0.0
        return self.beside if self.lanes[0].copied and self.lanes[1].copied else self.alone

    def alone_ns(self, running: Issued) -> float:
        """Until the operation takes the link."""
        return self.end_ns - self.now - running.in_place_ns

    def works(self) -> list[tuple[Lane, UnderWay, float]]:
        """The moves that get on: their lanes, and how much of their parts each nanosecond."""
        found = []
        mapped = self.driver.works() if self.driver.queue else None
        rates = self.rates()
        for lane in self.lanes:
            turn = lane.turn
            if lane.called:
                found.append((lane, lane.called, 1.0))
            if turn:
                rate = rates[turn.move.kind != FILL] if lane.copied else 1.0
                if rate > 0:
                    found.append((lane, turn, rate))
            if mapped and mapped in lane.moves:
                found.append((lane, mapped, 1.0))
        return found

    # --- time ---

    def advance(self) -> bool:
        """To the next moment at which something ends. False: it lets nothing begin. Raises
        StuckError when there is none.
        """
        now, running, works = self.now, self.running, self.works()
        moments = [inf]  # of the device and the program
        if running:
            moments.append(self.end_ns - now)
            if running.in_place_ns and self.alone_ns(running) >= LEAST_NS:
                moments.append(self.alone_ns(running))
        elif self.queue and self.queue[0].ready_ns > now:
            moments.append(self.queue[0].ready_ns - now)
        if not self.held and self.computes_ns > now and self.may_issue():
            moments.append(self.computes_ns - now)
        alone = min(moments)
        for _, one, rate in works:
            moments.append(one.left / rate)
        step = max(0.0, min(moments))
        if step == inf:
            raise StuckError(f"{self.held} waits, and nothing is under way")
        self.now += step
        lets_begin = alone < step + NEAR_NS
        for lane, one, rate in works:
            one.left -= rate * step
            if one.left < LEAST_NS and self.pass_on(lane, one):
                lets_begin = True
        if running and self.end_ns <= self.now + LEAST_NS:
            self.retire(running)
        return lets_begin
