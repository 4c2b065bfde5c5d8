"""Long programs made of a seed, for both engines: settings, a loop of operations, what is done."""

import random
from dataclasses import replace

from pump.sim.engine import READ, SCRATCH, SPARSE, UPDATE, WRITE, Settings, Touch, policies
from tests.reference.pair import PAGE, PAGES, Action, Step

FEW = READ | SPARSE
MODES = (READ, WRITE, UPDATE, SCRATCH, FEW)


def random_program(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """A long program: work with other things in between."""
    chance = random.Random(seed)

    def touch() -> Touch:
        start = PAGE * chance.randint(1, PAGES) + chance.choice([0, 0, 0, 8])
        return Touch(start, chance.choice([8, PAGE, 2 * PAGE, 3 * PAGE]), chance.choice(MODES))

    engine = Settings(
        policy=policies()[seed % len(policies())],
        page_bytes=PAGE,
        budget=PAGE * chance.randint(4, 14),
        run_bytes=chance.choice([PAGE, 2 * PAGE, 5 * PAGE]),
        ahead_bytes=chance.choice([0, PAGE, 3 * PAGE]),
        keeps=chance.random() < 0.5,
        faults=chance.random() < 0.5,
        in_place=chance.choice([0, 1, 2, 2]),
        shed_bytes=chance.choice([0, 8 * PAGE]),
    )
    loop = [
        (chance.randint(0, 3), tuple(touch() for _ in range(chance.randint(1, 3))))
        for _ in range(chance.randint(3, 30))
    ]
    script: list[Action] = []
    for _ in range(300):
        which, ok = chance.randint(0, 5), chance.random() < 0.9
        size = PAGE * chance.randint(1, 3)
        script.append(
            chance.choices(
                [
                    ("work", chance.randint(1, 5), 3),
                    ("issue", 0, None, ()),
                    ("issue", chance.choice([0, 2, 70]), chance.choice([None, 9]), (touch(),)),
                    ("admit", which, chance.random() < 0.1),
                    ("retire", which),
                    ("take", which % 2),
                    ("finish", which, ok),
                    ("budget", PAGE * chance.randint(2, 14)),
                    ("in_place", which % 3),
                    ("eager", ok),
                    ("block", touch().start, size + 8, ok and which > 2),
                    ("freed", touch().start, size),
                    ("allocated", touch().start // PAGE * PAGE, size),
                    ("placed", touch().start, PAGE),
                ],
                [30, 20, 4, 40, 12, 50, 45, 1, 1, 1, 6, 2, 4, 1],
            )[0]
        )
    return engine, loop, script


def random_turns(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """A program that goes round and round, and leaves its way in all manners."""
    chance = random.Random(seed)
    engine = Settings("ahead", PAGE, 8 * PAGE, PAGE, PAGE, True, True, seed % 3)
    few = [
        (
            chance.randint(0, 1),
            (Touch(PAGE * chance.randint(1, PAGES), PAGE, chance.choice([1, 2, 3, FEW])),),
        )
        for _ in range(chance.choice([3, 10, 40]))
    ]
    loop: list[Step] = [chance.choice(few) for _ in range(chance.choice([5, 40, 150]))]
    script: list[Action] = []
    for _ in range(60):
        other = Touch(PAGE * chance.randint(1, PAGES), PAGE, 1)
        ways: list[Action] = [
            ("insert", chance.choice([1, 15, 16])),
            ("issue", chance.choice([1, 2, 63, 64, 65]), None, ()),
            ("issue", -chance.randint(1, 70), None, ()),
            ("issue", 0, None, (other,)),
            ("replace", other),
        ]
        work = ("work", chance.choice([1, 3, 20, 60]), chance.choice([3, 3, 40]))
        script += [work, chance.choice(ways)]
    return engine, loop, script


def random_in_place(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """The same with a budget of nothing, where nobody brings pages."""
    engine, loop, script = random_turns(seed)
    return replace(engine, budget=0, faults=False), loop, script


def random_steps(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """Steps of a program that is given blocks and gives them back, and runs far ahead."""
    chance = random.Random(seed)
    budget, run = chance.randint(6, 14), chance.randint(1, 3)
    engine = Settings(
        "ahead", PAGE, budget * PAGE, run * PAGE, chance.choice([0, 3 * PAGE]), True, True
    )
    loop: list[Step] = []
    step: list[Action] = []  # one page of a block for each operation of the loop
    for _ in range(chance.choice([20, 80])):
        block, mode = Touch(PAGE * chance.randint(9, PAGES), PAGE, 2), chance.randint(1, 4)
        loop.append((chance.randint(0, 9), (block, Touch(PAGE * chance.randint(1, 8), PAGE, mode))))
        most = chance.choice([3, 40, 40, 40])
        step += [("block", *block[:2], True), ("work", 1, most)]
        if chance.random() < 0.7:
            step.append(("block", *block[:2], False))
        if chance.random() < 0.2:
            step += [("issue", 0, None, ()), ("issue", -1, None, ()), ("admit", -1, False)]
            step += [("take", 1), ("take", 0), ("take", 0), ("finish", 0, True)]
    return engine, loop, step * (4 if len(loop) > 20 else 12)


def random_sweeps(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """Most pages are touched once a period; the program varies little."""
    chance = random.Random(seed)
    engine = Settings(
        "ahead",
        PAGE,
        chance.randint(6, 14) * PAGE,
        chance.randint(1, 3) * PAGE,
        chance.choice([0, 3 * PAGE]),
        chance.random() < 0.7,
        chance.random() < 0.5,
        chance.randint(1, 2),
    )
    several = (Touch(PAGE, PAGE, chance.choice(MODES)),)
    loop: list[Step] = [
        (
            page % 4,
            (Touch(PAGE * page, PAGE, chance.choice([1, 1, 1, *MODES])),)
            + several * (chance.random() < 0.2),
        )
        for page in range(2, PAGES + 1)
    ]
    script: list[Action] = []
    for _ in range(40):
        page = PAGE * chance.randint(2, PAGES)
        other = Touch(page, PAGE, chance.randint(1, 3))
        ways: list[Action] = [
            ("replace", other),
            ("insert", 1),
            ("issue", 1, None, ()),
            ("issue", 0, None, (other,)),
            ("issue", 0, 9, (other,)),
            ("budget", PAGE * chance.randint(4, 20)),
            ("block", page, PAGE, True),
            ("block", page, PAGE, False),
            ("freed", page, PAGE),
            ("placed", page, PAGE),
            ("allocated", PAGE, PAGES * PAGE),
            ("in_place", chance.randint(0, 2)),
            ("eager", chance.random() < 0.5),
        ]
        script += [("work", chance.choice([20, 60, 150]), chance.choice([1, 3, 10]))]
        script += chance.choices(ways, k=chance.randint(0, 2))
    return engine, loop, script


def random_strolls(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """A program that seldom waits for pages, and now and then does."""
    chance = random.Random(seed)
    budget, run = chance.randint(8, 20), chance.randint(1, 2)
    ahead = chance.choice([0, 2 * PAGE])
    engine = Settings("ahead", PAGE, budget * PAGE, run * PAGE, ahead, True, seed % 2 > 0)
    loop: list[Step] = [
        (page % 5, (Touch(PAGE * page, PAGE, chance.choice([1, 1, 1, 1, 3, SCRATCH])),))
        for page in range(1, PAGES + 1)
    ]
    script: list[Action] = []
    for _ in range(12):
        script += [("stroll", PAGES * chance.randint(2, 7), chance.choice([0, 1, 4, 99, 99, 99]))]
        other: list[Action] = [("insert", 1), ("work", PAGES * chance.randint(1, 3), 3)]
        script += chance.choices(other, k=chance.randint(0, 2))
        if chance.random() < 0.3:
            script += [("work", PAGES - 1, 3), ("insert", 1)] * 3
    return engine, loop, script


def random_laps(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """A few pages, so often that both ways are tried three times; or then one page more."""
    chance = random.Random(seed)
    engine = Settings("ahead", PAGE, 2 * PAGE, PAGE, PAGE, True, True, 2)
    mode = chance.choice([1, 1, 3])
    steps: list[Step] = [(0, (Touch(PAGE * page, PAGE, mode),)) for page in (1, 2, 3, 4)]
    loop = chance.choice([steps[:3], steps[:3] * 300 + steps * 400])
    other: Action = ("issue", 0, None, steps[0][1])
    script: list[Action] = []
    for _ in range(16):
        script += [("work", 150, chance.choice([1, 2])), *[other] * (chance.random() < 0.3)]
    return engine, loop, script
