"""Compares our tables and declarations with the vendor's headers and libraries.

`audit.py WHEEL...` installs the wheels into build/audit and runs the audit tests with all that lies
there. A test that is skipped, for want of a header or a library, counts as failed. The output goes
to build/logs/audit.log; the end of it is shown when something failed. Exit status 1 then.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

FOLDER = Path("build/audit")
LOG = Path("build/logs/audit.log")
JUNIT = FOLDER / "junit.xml"
TESTS = sorted(str(path) for path in Path("tests/unit").glob("test_*_audit.py"))
VARIABLES = ("PUMP_CUDA_INCLUDE", "PUMP_CUBLAS_INCLUDE", "PUMP_CUDNN_INCLUDE", "PUMP_NCCL_INCLUDE")
TAIL_LINES = 60


def call(*arguments: str, **variables: str) -> bool:
    """Runs a module of Python; true when it exits with 0."""
    with LOG.open("ab") as sink:
        command = [sys.executable, "-P", "-m", *arguments]
        done = subprocess.run(command, env=os.environ | variables, stdout=sink, stderr=sink)
    return done.returncode == 0


def install(wheels: list[str]) -> bool:
    """What was there before is replaced."""
    return call("pip", "install", "--no-deps", "--upgrade", "--target", str(FOLDER), *wheels)


def tested() -> bool:
    """Runs the tests; each finds its headers among all."""
    includes = ":".join(str(path.resolve()) for path in FOLDER.glob("nvidia/*/include"))
    variables = dict.fromkeys(VARIABLES, includes) | {"PUMP_AUDIT": str(FOLDER.resolve())}
    return call("pytest", *TESTS, "-q", f"--junitxml={JUNIT.resolve()}", **variables)


def skipped() -> list[str]:
    """The tests that were."""
    cases = ElementTree.parse(JUNIT).getroot().iter("testcase")
    return [case.attrib["name"] for case in cases if case.find("skipped") is not None]


def main() -> int:
    """Installs, tests, tells."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    LOG.unlink(missing_ok=True)
    if not (install(sys.argv[1:]) and tested()):
        print(
            *LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:], sep="\n"
        )
        return 1
    for name in skipped():
        print(f"{name}: skipped, so nothing was compared; {LOG} says why")
    if skipped():
        return 1
    print("all agree with", *sys.argv[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
