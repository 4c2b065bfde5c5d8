"""Steps and a link whose times in virtual time can be worked out by hand."""

from pump.sim.engine import IN_PLACE_NOTHING, CompiledEngine, Touch
from pump.sim.link import UM, Link
from pump.sim.result import Result
from pump.sim.sequence import Block, Operation, Sequence
from pump.sim.simulator import Simulator, settings_for

PAGE = UM.page_bytes
PLAIN = Link(
    "plain",
    rate_in=40,
    rate_out=20,
    rate_both=50,
    rate_fault=10,
    rate_read=20,
    rate_update=10,
    in_place=IN_PLACE_NOTHING,
    run_bytes=PAGE,
    ahead_bytes=PAGE,
    keeps=False,
)


def turns(*modes: int, duration_ns: int = 1000) -> Sequence:
    """A step of one operation a page, each in a page of its own."""
    blocks = tuple(Block((1 + 2 * i) * PAGE, PAGE) for i in range(len(modes)))
    step = tuple(
        Operation(i, duration_ns, (Touch(*block, mode),))
        for i, (block, mode) in enumerate(zip(blocks, modes, strict=True))
    )
    return Sequence(blocks, (step,))


def simulate(sequence: Sequence, link: Link, policy: str, pages: int) -> Result:
    engine = CompiledEngine(settings_for(link, policy, pages * PAGE))
    return Simulator(engine, link, policy).run(sequence)
