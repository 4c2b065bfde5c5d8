"""A command that stands in for CRIU: it says that it can do everything, stops nothing, and writes a
file that holds no process.
"""

import json
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S

TEXT = f"""#!{sys.executable} -I
import json, os, signal, subprocess, sys, time
from pathlib import Path
home = Path(__file__).parent
does = json.loads((home / "does").read_text())
verb = next(word for word in sys.argv[1:] if word in ("--version", "check", "dump", "restore"))
def after(word):
    return sys.argv[sys.argv.index(word) + 1]
def fail(said):
    (Path(after("--work-dir")) / after("--log-file")).write_text(said)
    sys.exit(1)
if verb == "--version":
    print("Version:", does.get("version", "4.2.1"))
elif verb == "check":
    print(does.get("check", "Looks good."))
    sys.exit("check" in does)
(home / "pid").write_text(str(os.getpid()))
(home / verb).write_text(json.dumps(sys.argv))
if verb == "dump":
    if "dump" in does:
        fail(does["dump"])
    images = Path(after("--images-dir"))
    for i in range(8):
        (images / f"pages-{{i}}.img").write_bytes(bytes(1 << 20))
        while (home / f"waits-{{i}}").exists():
            time.sleep(0.01)
    if "--action-script" in sys.argv:
        env = os.environ | {{"CRTOOLS_SCRIPT_ACTION": "post-dump"}}
        if subprocess.run([after("--action-script")], env=env).returncode:
            sys.exit(1)
        if "kill" in does:
            fail(does["kill"])
        os.kill(int(after("--tree")), signal.SIGKILL)
if verb == "restore":
    fail(does.get("restore", ""))
"""


class Fake:
    """One that lies in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "criu"
        self.path.write_text(TEXT)
        self.path.chmod(0o755)
        self.does()

    def does(self, **what: str) -> None:
        """Fails in this verb, with this complaint; or is of this version."""
        (self.folder / "does").write_text(json.dumps(what))

    def words(self, verb: str) -> list[str]:
        """What it was called with last."""
        found: list[str] = json.loads((self.folder / verb).read_text())
        return found

    def waits(self, at: int) -> Path:
        """A dump waits after so many files, until the path is removed."""
        path = self.folder / f"waits-{at}"
        path.touch()
        return path

    def wait_until_over(self) -> None:
        """The latest one has ended."""
        end = time.monotonic() + PATIENCE_S
        pid = (self.folder / "pid").read_text()
        while Path(f"/proc/{pid}/exe").exists():
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    folder = tmp_path / "fake"
    folder.mkdir()
    return Fake(folder)
