"""The NVIDIA driver: is there one, is it new enough, what devices has it."""

import json
import subprocess
from collections.abc import Iterator, Mapping

from pump.doctor.finding import Finding, note, ok, problem
from pump.doctor.machine import Clues
from pump.probe import COMMAND, Device, Driver
from pump.sizes import format_size

# CUDA versions that brought what ulms.so asks the driver.
GET_PROC_ADDRESS = 11030
PARAMETER_INFO = 12040
TIMEOUT_S = 60

# What cuInit answers when it fails, and what helps.
INIT_ERRORS = {
    3: ("it is not initialised", "a process that used CUDA has forked: ask from a fresh process"),
    46: ("the device is in use exclusively", "wait for the other program, or nvidia-smi -c 0"),
    100: ("there is no device", "check nvidia-smi and CUDA_VISIBLE_DEVICES"),
    101: ("no device of that number", "check CUDA_VISIBLE_DEVICES"),
    802: ("the system is not ready", "start the fabric manager (nvidia-fabricmanager)"),
    803: ("libcuda and the kernel module differ in version", "reboot, or match the versions"),
    804: ("the compatibility libcuda does not suit this device", "use the driver's own libcuda"),
    999: ("an unknown error", "look at dmesg; reload the nvidia_uvm module or reboot"),
}


def ask(variables: Mapping[str, str]) -> Driver:
    """Asks the driver that a program with this environment gets, in a process of its own."""
    plain = {name: value for name, value in variables.items() if name != "LD_PRELOAD"}
    try:
        answer = subprocess.run(
            COMMAND,
            env=plain,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Driver(error=f"the driver did not answer in {TIMEOUT_S} s")
    if answer.returncode != 0:
        last = answer.stderr.strip().splitlines()[-1:] or [f"exit status {answer.returncode}"]
        return Driver(error=f"asking the driver failed: {last[0]}")
    facts = json.loads(answer.stdout)
    return Driver(**{**facts, "devices": [Device(**device) for device in facts["devices"]]})


def findings(driver: Driver, clues: Clues) -> Iterator[Finding]:
    """What there is to say about a driver."""
    if driver.error:
        yield problem("driver", f"libcuda.so.1 cannot be used: {driver.error}", no_driver(clues))
        return
    yield version_finding(driver.version)
    if driver.status != 0:
        text, advice = INIT_ERRORS.get(driver.status, ("an error", "look the number up in cuda.h"))
        yield problem("device", f"the driver answers {driver.status}: {text}", advice)
        return
    if not driver.devices:
        yield problem("device", "the driver sees no device", INIT_ERRORS[100][1])
    for ordinal, device in enumerate(driver.devices):
        yield ok(f"device {ordinal}", f"{device.name}, {format_size(device.memory)}")
        if not device.concurrent_managed_access:
            yield note(
                f"device {ordinal}",
                "no concurrent managed access (WSL, some virtual GPUs): managed memory cannot be"
                " prefetched or exceed the device",
                "observing and limiting work; managed oversubscription will not",
            )


def no_driver(clues: Clues) -> str:
    """What to do where libcuda does not load."""
    advice = "install the NVIDIA driver"
    if clues.device_nodes:
        advice = (
            "there are NVIDIA device files: put the directory of libcuda.so.1 on the loader path"
        )
    if clues.container:
        advice = (
            "this is a container: start it with the driver (docker run --gpus all,"
            " NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        )
    return f"{advice}; without a GPU, `pump run --emulator` uses the emulated device"


def version_finding(version: int) -> Finding:
    """Is the driver new enough?"""
    text = f"for CUDA {version // 1000}.{version % 1000 // 10}"
    if version < GET_PROC_ADDRESS:
        return problem("driver", f"{text}: too old", "install a driver for CUDA 11.3 or newer")
    if version < PARAMETER_INFO:
        return note(
            "driver",
            f"{text}: it does not tell the parameters of kernels (12.4 does)",
            "launches are counted, but what kernels touch may be missed; install a newer driver",
        )
    return ok("driver", text)
