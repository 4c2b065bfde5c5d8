"""Puts itself away while it has nothing to do, and comes back with its memory as it was.

pump run --share job -- python examples/away.py
"""

import subprocess
import time

from device import Array

import pump

arrays = [Array(16, i) for i in range(8)]
for array in arrays:
    array.add(1, array)
began = time.monotonic()
pump.suspend()
print(f"away after {time.monotonic() - began:.3f} s", flush=True)
subprocess.run(["pump", "share", "status"], check=True)

# Now the GPU has room for another program; `pump resume job` would bring this one back, too.
pump.resume()
arrays[0].add(1, arrays[7])
print("back:", [array.last() for array in arrays])
