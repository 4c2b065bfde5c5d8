"""deploy/ray-runtime-env.yaml lets Ray's workers share a GPU, on the emulated device."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from pump.cli.cdi import INSIDE, MEETING
from pump.paths import installed
from tests.conftest import PATIENCE_S, ROOT, clean_environment
from tests.tenants import broker

pytestmark = pytest.mark.emu

DRIVER = """
import ctypes, json, os, sys
import ray
from pathlib import Path
from pump.share.broker import status

BYTES = 150 << 20

@ray.remote(num_gpus=0.5)
class Actor:
    def use(self):
        cuda = ctypes.CDLL("libcuda.so.1")
        context, start = ctypes.c_void_p(), ctypes.c_uint64()
        said = [
            cuda.cuInit(0),
            cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
            cuda.cuCtxSetCurrent(context),
            cuda.cuMemAlloc_v2(ctypes.byref(start), ctypes.c_size_t(BYTES)),
            cuda.cuMemsetD8_v2(start, 1, ctypes.c_size_t(BYTES)),
            cuda.cuCtxSynchronize(),
        ]
        return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], said

folder, environment = sys.argv[1], json.loads(sys.argv[2])
ray.init(
    num_gpus=1, num_cpus=2, runtime_env=environment, include_dashboard=False,
    object_store_memory=80 << 20, _temp_dir=folder + "/ray",
)
actors = [Actor.remote() for _ in range(2)]
used = ray.get([actor.use.remote() for actor in actors])
gpus = status(Path(folder) / "share")["gpus"]
tenants = [(one["group"], one["pid"]) for gpu in gpus for one in gpu["tenants"]]
print(json.dumps({"used": used, "gpus": len(gpus), "tenants": tenants}))
"""
"""Two actors that together need more than the device has."""


@pytest.fixture
def environment() -> dict[str, Any]:
    text = (ROOT / "deploy" / "ray-runtime-env.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_the_file_gives_what_pump_run_gives(environment: dict[str, Any]) -> None:
    assert environment.keys() == {"env_vars"}
    command = [sys.executable, "-P", "-m", "pump", "run", "--share", "ray", "--print", "--", "a"]
    env = clean_environment() | {"ULMS_SHARE_DIR": MEETING}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    given = dict(word.split("=", 1) for word in shlex.split(said) if "=" in word)
    library = given.pop("LD_PRELOAD")
    assert library == str(installed("ulms.so"))
    share = {name: given[name] for name in given if name.startswith("ULMS_SHARE")}
    assert environment["env_vars"] == share | {"LD_PRELOAD": INSIDE}


@pytest.mark.slow
def test_actors_share_a_gpu(environment: dict[str, Any], emulator_dir: Path) -> None:
    """Not installed for the tests, as it is large: `pip install ray` has this run."""
    pytest.importorskip("ray")
    environment["env_vars"]["LD_PRELOAD"] = str(installed("ulms.so"))
    with tempfile.TemporaryDirectory() as root:  # a short name: that of a socket is limited
        folder = Path(root)
        environment["env_vars"]["ULMS_SHARE_DIR"] = str(folder / "share")
        env = clean_environment() | {
            "PATH": os.environ["PATH"],
            "HOME": root,
            "RAY_AUTH_MODE": "disabled",
            "LD_LIBRARY_PATH": str(emulator_dir),
            "EMU_SHARED": str(folder / "device"),
            "EMU_MEMORY": "192MiB",
            "ULMS_MANAGED_LIMIT": "1GiB",
        }
        command = [sys.executable, "-P", "-c", DRIVER, root, json.dumps(environment)]
        with broker(installed("ulms-broker"), folder / "share"):
            run = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout.splitlines()[-1])
    assert said["gpus"] == 1
    assert [(gpu, set(codes)) for _, gpu, codes in said["used"]] == [("0", {0})] * 2
    assert sorted(said["tenants"]) == sorted(["ray", pid] for pid, _, _ in said["used"])
