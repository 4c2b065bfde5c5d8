"""How many instructions hooks take: bounds that no load can move."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import launch_cost, library_cost  # noqa: E402

pytestmark = pytest.mark.emu
TIMES = 512
ROOM = 1.02
OVER = {
    "cublasSgemm_v2": 800,
    "cublasGemmEx": 900,
    "cublasGemmStridedBatchedEx": 1000,
    "cublasSgemmBatched": 3570,
    "cublasLtMatmul": 3380,
    "cudnnConvolutionForward": 1450,
    "cudnnBatchNormalizationForwardTrainingEx": 2830,
    "cudnnRNNForward": 3280,
    "cudnnBackendExecute": 1370,
    "ncclAllReduce": 540,
    "ncclAllGather": 680,
}
"""What each hook added when it was last counted; none may grow beyond so many times that."""


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind to count instructions")
def test_instructions_of_calls(tmp_path: Path, ulms_so: Path, emulator_dir: Path) -> None:
    program = library_cost.build(tmp_path, emulator_dir)
    costs = library_cost.instructions(program, ulms_so, TIMES)
    assert min(cost.over for cost in costs.values()) > 100  # the hooked ones are hooked
    assert costs.keys() == OVER.keys()
    grown = {name: cost.over for name, cost in costs.items() if cost.over > ROOM * OVER[name]}
    assert grown == {}


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind to count instructions")
@pytest.mark.parametrize(
    ("backend", "most"), [("observe", launch_cost.MOST), ("um", launch_cost.MOST_UNREAD)]
)
def test_instructions_of_a_launch(
    tmp_path: Path, ulms_so: Path, emulator_dir: Path, backend: str, most: int
) -> None:
    taken = launch_cost.instructions(tmp_path, ulms_so, emulator_dir, launch_cost.FEW, backend)
    assert most / 2 < taken <= most
