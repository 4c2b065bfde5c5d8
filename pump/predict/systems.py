"""What is compared: ways to run a program that needs more memory than it may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SIM, EMULATOR, GPU = "sim", "emulator", "gpu"
DEVICES = {
    SIM: "recorded steps through the engine in virtual time, over a model of an H200's link",
    EMULATOR: "programs on the emulated device, with its model of time",
    GPU: "programs on this machine's GPU, held to a software budget",
}
OVER = "(over)"
"""In place of the time of a run that had more than its budget resident."""


@dataclass(frozen=True)
class System:
    """A way to run. `link` is the model of pump.sim.link it moves pages over, "" where none.

    `env` has the options that choose it, `promise` what its user knows of the program: what breaks
    it spoils data. `risk` is what it does not guarantee, a sentence. All are empty where there is
    nothing of the kind.
    """

    name: str
    help: str
    devices: tuple[str, ...]
    link: str = ""
    policy: str = ""  # of the engine's; "" where it does not decide
    env: Mapping[str, str] = field(default_factory=dict)
    in_place: bool = False  # nothing ever comes to the device
    promise: str = ""
    risk: str = ""
    title: str = ""  # in pictures and tables; "": the name


ALL = (SIM, EMULATOR, GPU)
LEARNS = "ahead"
"""Our policy: it learns what a program repeats."""
UM = {"ULMS_BACKEND": "um"}
VMM = {"ULMS_BACKEND": "vmm"}
UNSEEN = (
    "vmm guarantees nothing to a kernel that uses memory in a way that it does not see: that may"
    " end the program or spoil data (docs/vmm.md; ULMS_VERIFY=1 checks a program)."
)
SYSTEMS = (
    System("native", "everything resident, no limit", ALL),
    System(
        "um-demand",
        "managed memory, faults alone",
        ALL,
        "um",
        "none",
        UM,
        title="driver paging",
    ),
    System(
        "um-pump",
        "managed memory, the published window prefetch",
        ALL,
        "um",
        "pump",
        UM,
        title="window prefetch (PUMP 2020)",
    ),
    System("um", "backend um with our policy", ALL, "um", LEARNS, UM),
    System("vmm", "backend vmm with our policy", ALL, "vmm", LEARNS, VMM, risk=UNSEEN),
    System(
        "vmm-known",
        "the same with ULMS_HIDDEN=known: for programs whose every use of memory is known",
        (SIM, GPU),
        "vmm-known",
        LEARNS,
        VMM | {"ULMS_HIDDEN": "known"},
        promise="no kernel uses memory that nothing shows (docs/vmm.md)",
    ),
    System(
        "oracle",
        "farthest next touch that knows everything, at the rate of plain copies",
        (SIM,),
        "vmm",
    ),
    System(
        "zero-copy",
        "nothing moves: kernels read and write host memory in place",
        (SIM, GPU),
        env=VMM | {"ULMS_GPU_MEMORY_FACTOR": "0"},
        in_place=True,
    ),
    System("save-on-cpu", "the program keeps activations in host memory itself", (GPU,)),
    System("checkpointing", "the program computes activations twice itself", (GPU,)),
    System(
        "offload",
        "the program keeps in host memory itself: a trainer its optimizer states; a decoder the"
        " weights that do not fit, copied before each module and released behind it, as by"
        " accelerate's CPU offload",
        (GPU,),
    ),
)
BY_NAME = {system.name: system for system in SYSTEMS}
OURS, RIVALS = ("um", "vmm", "vmm-known"), ("um-demand", "um-pump")
"""By name: those that are compared with the rivals."""
ALIKE = ("vmm", "vmm-known")
"""One does what the other does in a step whose every kernel is trusted."""


def title_of(name: str) -> str:
    """What a system is called in pictures and tables."""
    return BY_NAME[name].title or name


def systems_on(device: str) -> list[System]:
    """Those that run there truthfully."""
    return [system for system in SYSTEMS if device in system.devices]
