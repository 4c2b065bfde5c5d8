"""Two programs share a GPU: each prints what it prints alone, whatever there is of memory.

python examples/share.py             # on the emulated device: python examples/share.py --emulator
"""

import subprocess
import sys
from pathlib import Path

RUN = ["pump", "run", *sys.argv[1:]]
TRAIN = [sys.executable, str(Path(__file__).with_name("train.py")), "8", "8", "20"]


def start(share: str) -> subprocess.Popen[str]:
    """The training, as one of those that share."""
    return subprocess.Popen(
        [*RUN, "--share", share, "--", *TRAIN], stdout=subprocess.PIPE, text=True
    )


programs = {share: start(share) for share in ("first,request=0.7", "second")}
for share, program in programs.items():
    out, _ = program.communicate()
    if program.returncode:
        sys.exit(program.returncode)
    print(f"{share}: {out.splitlines()[-1]}")
