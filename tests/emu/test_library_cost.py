"""How many instructions the hook of a library's call adds: a bound that no load can move."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import library_cost  # noqa: E402

pytestmark = pytest.mark.emu
TIMES = 512
ROOM = 1.3
OVER = {
    "cublasSgemm_v2": 770,
    "cublasGemmEx": 860,
    "cublasGemmStridedBatchedEx": 950,
    "cublasSgemmBatched": 3440,
    "cublasLtMatmul": 3080,
    "cudnnConvolutionForward": 1410,
    "cudnnBatchNormalizationForwardTrainingEx": 2770,
    "cudnnRNNForward": 3230,
    "cudnnBackendExecute": 1430,
    "ncclAllReduce": 550,
    "ncclAllGather": 690,
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
