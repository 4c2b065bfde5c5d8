"""What is compared: ways to run a program that needs more memory than it may use."""

from dataclasses import dataclass

SIM, EMULATOR, GPU = "sim", "emulator", "gpu"
DEVICES = {
    SIM: "recorded steps through the engine in virtual time, over a model of an H200's link",
    EMULATOR: "programs on the emulated device, with its model of time",
    GPU: "programs on this machine's GPU, held to a software budget",
}


@dataclass(frozen=True)
class System:
    """A way to run. `link` is the model of pump.sim.link it moves pages over, "" where none."""

    name: str
    help: str
    devices: tuple[str, ...]
    link: str = ""
    policy: str = ""  # of the engine's; "" where it does not decide
    in_place: str = ""  # the backend under which nothing ever comes to the device, "" where it may


ALL = (SIM, EMULATOR, GPU)
SYSTEMS = (
    System("native", "everything resident, no limit", ALL),
    System("um-demand", "managed memory, faults alone", ALL, "um", "none"),
    System("um-pump", "managed memory, the published window prefetch", ALL, "um", "pump"),
    System("um", "backend um with our policy", ALL, "um", "ahead"),
    System("vmm", "backend vmm with our policy", ALL, "vmm", "ahead"),
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
        in_place="vmm",
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


def systems_on(device: str) -> list[System]:
    """Those that run there truthfully."""
    return [system for system in SYSTEMS if device in system.devices]
