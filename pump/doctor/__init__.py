"""What is wrong with a machine, an environment or a program, in words.

Every check turns plain facts into findings; only `examine` gathers the facts.
"""

import os
from collections.abc import Mapping

from pump.doctor import driver, environment, machine, program
from pump.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "examine"]


def examine(
    command: str | None = None, variables: Mapping[str, str] | None = None
) -> list[Finding]:
    """All findings for this machine, for an environment (this process's own when None) and, when a
    command is named, for that program."""
    variables = os.environ if variables is None else variables
    clues = machine.Clues.gather()
    probed = driver.ask(variables)
    return [
        *driver.findings(probed, clues),
        *environment.findings(variables),
        *machine.findings(clues, device_memory=sum(device.memory for device in probed.devices)),
        *(program.findings(command) if command else ()),
    ]
