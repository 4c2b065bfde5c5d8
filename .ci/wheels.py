"""Makes dist/ anew: a wheel for each machine that CUDA runs on, and what belongs beside it.

Wheels are cross-compiled for the oldest C library that the compiler knows, as a program's container
may have an old one. dist/debug/ has the same wheels with debug symbols. dist/amd64/ and dist/arm64/
have the library alone, under the names that container builds give the machines.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import ziglang

DIST, BUILD = Path("dist"), Path("build/wheels")
CONTAINERS = {"x86_64": "amd64", "aarch64": "arm64"}
GLIBC = "2.17"


def main() -> int:
    """Exit status 1 when a step failed; its output has been shown."""
    shutil.rmtree(DIST, ignore_errors=True)
    try:
        for machine, container in CONTAINERS.items():
            repaired(wheel(machine, stripped=False), DIST / "debug")
            made = repaired(wheel(machine, stripped=True), DIST)
            with zipfile.ZipFile(made) as archive:
                target = DIST / container / "ulms.so"
                target.parent.mkdir()
                target.write_bytes(archive.read("pump/ulms.so"))
            print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")
        python("twine", "check", "--strict", *map(str, DIST.glob("*.whl")))
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


def wheel(machine: str, *, stripped: bool) -> Path:
    """What pip builds; only linked again where it was compiled before."""
    out = BUILD / machine / "made"
    shutil.rmtree(out, ignore_errors=True)
    link = "-lunwind -s" if stripped else "-lunwind"  # the compiler's own unwinder, which is static
    define = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": machine,
        **{f"CMAKE_{kind}_LINKER_FLAGS": link for kind in ("EXE", "MODULE", "SHARED")},
    }
    settings = [f"build-dir={BUILD / machine / 'tree'}"]
    settings += [f"cmake.define.{name}={value}" for name, value in define.items()]
    zig = Path(ziglang.__file__).with_name("zig")
    python(
        *("pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(out)),
        *(f"--config-settings={setting}" for setting in settings),
        ".",
        CC=f"{zig} cc -target {machine}-linux-gnu.{GLIBC}",
        ZIG_GLOBAL_CACHE_DIR=str((BUILD / "zig").absolute()),
        _PYTHON_HOST_PLATFORM=f"linux-{machine}",
    )
    (made,) = out.iterdir()
    return made


def repaired(made: Path, out: Path) -> Path:
    """The wheel with the tag that auditwheel finds right for it."""
    python("auditwheel", "repair", "--wheel-dir", str(out), str(made))
    version = made.name.split("-")[1]
    (found,) = out.glob(f"*-{version}-*{made.stem.rpartition('linux_')[2]}.whl")
    return found


def python(*arguments: str, **variables: str) -> None:
    """Runs a module. Raises CalledProcessError, its output shown."""
    command = [sys.executable, "-P", "-m", *arguments]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="", file=sys.stderr)
    done.check_returncode()


if __name__ == "__main__":
    sys.exit(main())
