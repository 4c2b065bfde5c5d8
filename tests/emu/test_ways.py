"""However a program comes to the driver's functions, its launches are seen."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

SEEN = "[ulms] INFO: 3 kernels in 3 launches and 0 graph launches, 1 copies, 2 memsets, "


WAYS = ["proc", "proc-next", "old-dlsym", "plugin", "plugin-default", "plugin-next"]


@pytest.mark.parametrize("way", WAYS)
def test_launches_are_seen(
    way: str, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    plugin = compiled("plugin", str(emulator_dir / "libcuda.so.1"), shared=True)
    command = [compiled("ways", "-ldl"), way, plugin]
    plain = run_emulated(command, preloaded=False)
    assert plain.stdout.splitlines()[-1] == "4.0"
    assert (plain.returncode, plain.stderr) == (0, "")
    under = run_emulated(command, {"ULMS_LOG_LEVEL": "INFO"})
    assert (under.stdout, under.returncode) == (plain.stdout, 0)
    assert sum(line.startswith(SEEN) for line in under.stderr.splitlines()) == 1
    assert "WARN" not in under.stderr


def test_a_function_that_is_not_known_is_left_alone(
    compiled: Compile, run_emulated: RunEmulated
) -> None:
    """Its parameters may be others: a driver newer than the tables tells a function of its own."""
    command = [compiled("ways", "-ldl"), "proc-next"]
    env = {"EMU_NEWER": "cuLaunchKernel"}
    plain = run_emulated(command, env, preloaded=False)
    assert plain.stdout.splitlines()[-1] == "cuLaunchKernel: error 801"
    under = run_emulated(command, env)
    assert (under.stdout, under.returncode) == (plain.stdout, plain.returncode)
    assert under.stderr == (
        "[ulms] WARN: cuLaunchKernel for CUDA 99000 is a version not known here: "
        "its calls are not seen\n"
    )


def test_nothing_is_said_of_a_function_that_nobody_wraps(
    compiled: Compile, run_emulated: RunEmulated
) -> None:
    """No version of it is seen: CUDA's runtime looks up all there are, in every program."""
    env = {"EMU_NEWER": "cuGraphNodeGetDependencies"}
    assert run_emulated([compiled("ways", "-ldl"), "proc-next"], env).stderr == ""
