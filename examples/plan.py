"""Records a training, and says how long a step would take with less memory.

python examples/plan.py              # on the emulated device: python examples/plan.py --emulator
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pump

TRAIN = [sys.executable, str(Path(__file__).with_name("train.py")), "8", "8", "10"]

with tempfile.TemporaryDirectory() as folder:
    record = ["trace", "run", *sys.argv[1:], "-o", f"{folder}/trace", "--", *TRAIN]
    subprocess.run(["pump", *record], check=True, stdout=subprocess.DEVNULL)
    trace = pump.open_trace(f"{folder}/trace")

needed = pump.plan(trace, 1 << 40, curve=False).footprint
for share in (0.75, 0.5):
    plan = pump.plan(trace, int(share * needed), curve=False)
    assert plan.best
    _, point = plan.best
    times = point.step_ms / plan.native_ms
    print(f"{share:.0%} of {needed >> 20} MiB: {times:.2f} times as long, with {point.backend}")
