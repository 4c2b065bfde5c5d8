"""Builds operation graphs with the look-alike of cuDNN under ulms.so, and runs them.

    cudnn_graphs.py LIBRARY

Prints one line of JSON a launch: a name, and [first byte, bytes, mode] of all it should touch.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.unit.cudnn_program import READ, SCRATCH, UPDATE, VALUES, WRITE

Touches = list[list[int]]
Attribute = tuple[str | int, str, Sequence[Any]]
TYPES: Mapping[str, Callable[..., Any]] = {
    "BACKEND_DESCRIPTOR": ctypes.c_void_p,
    "VOID_PTR": ctypes.c_void_p,
    "INT64": ctypes.c_int64,
    "BOOLEAN": ctypes.c_bool,
    "FLOAT": ctypes.c_float,
    "DATA_TYPE": ctypes.c_int,
    "NORM_FWD_PHASE": ctypes.c_int,
}
MIB = 1 << 20
GRAPH_NODE = 4  # CU_GRAPH_NODE_TYPE_GRAPH


def check(status: int) -> None:
    """Raises RuntimeError for an error."""
    if status:
        raise RuntimeError(f"status {status}")


class Program:
    """A program that uses the driver and the backend interface."""

    def __init__(self, library: str) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        check(self.cuda.cuInit(0))
        context = ctypes.c_void_p()
        check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(self.cuda.cuCtxSetCurrent(context))
        self.dnn = ctypes.CDLL(library)
        self.handle = ctypes.c_void_p()
        check(self.dnn.cudnnCreate(ctypes.byref(self.handle)))
        self.base = self.memory(64 * MIB)

    def memory(self, size: int) -> int:
        """A device allocation."""
        address = ctypes.c_uint64()
        check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        return address.value

    def make(self, kind: str, *attributes: Attribute, final: bool = True) -> int:
        """A descriptor with these attributes."""
        made = ctypes.c_void_p()
        number = VALUES[f"CUDNN_BACKEND_{kind}_DESCRIPTOR"]
        check(self.dnn.cudnnBackendCreateDescriptor(number, ctypes.byref(made)))
        for name, element, values in attributes:
            array = (TYPES[element] * len(values))(*values)  # type: ignore[operator]
            attribute = name if isinstance(name, int) else VALUES[f"CUDNN_ATTR_{name}"]
            element_type = VALUES[f"CUDNN_TYPE_{element}"]
            count = ctypes.c_int64(len(values))
            check(self.dnn.cudnnBackendSetAttribute(made, attribute, element_type, count, array))
        if final:
            check(self.dnn.cudnnBackendFinalize(made))
        assert made.value
        return made.value

    def tensor(self, uid: int, sizes: Sequence[int], *more: Attribute) -> int:
        """A tensor of floats, row by row."""
        strides = [1] * len(sizes)
        for i in range(len(sizes) - 1, 0, -1):
            strides[i - 1] = strides[i] * sizes[i]
        return self.make(
            "TENSOR",
            ("TENSOR_DATA_TYPE", "DATA_TYPE", [VALUES["CUDNN_DATA_FLOAT"]]),
            ("TENSOR_DIMENSIONS", "INT64", sizes),
            ("TENSOR_STRIDES", "INT64", strides),
            ("TENSOR_UNIQUE_ID", "INT64", [uid]),
            *more,
        )

    def operation(self, kind: str, prefix: str, *more: Attribute, **tensors: int) -> int:
        """An operation on tensors."""
        named: list[Attribute] = [
            (f"OPERATION_{prefix}_{name}", "BACKEND_DESCRIPTOR", [tensor])
            for name, tensor in tensors.items()
        ]
        return self.make(f"OPERATION_{kind}", *named, *more)

    def plan(self, operations: Sequence[int], engine: int | None = None) -> int:
        """A plan of the engine with that number, or of the second that a search finds."""
        graph = self.make("OPERATIONGRAPH", (801, "BACKEND_DESCRIPTOR", operations))
        if engine is None:
            search = self.make("ENGINEHEUR", (201, "BACKEND_DESCRIPTOR", [graph]))
            configs = [self.make("ENGINECFG", final=False) for _ in range(2)]
            room, found = (ctypes.c_void_p * 2)(*configs), ctypes.c_int64()
            name, kind = (
                VALUES["CUDNN_ATTR_ENGINEHEUR_RESULTS"],
                VALUES["CUDNN_TYPE_BACKEND_DESCRIPTOR"],
            )
            two = ctypes.c_int64(2)
            at = ctypes.c_void_p(search)
            get = self.dnn.cudnnBackendGetAttribute
            check(get(at, name, kind, two, ctypes.byref(found), room))
            config, rest = configs[1], [search, configs[0]]
        else:
            of_graph: Attribute = (1300, "BACKEND_DESCRIPTOR", [graph])
            made = self.make("ENGINE", of_graph, (1301, "INT64", [engine]))
            config, rest = self.make("ENGINECFG", (300, "BACKEND_DESCRIPTOR", [made])), [made]
        plan = self.make("EXECUTION_PLAN", (401, "BACKEND_DESCRIPTOR", [config]))
        for descriptor in (*operations, graph, config, *rest):
            check(self.dnn.cudnnBackendDestroyDescriptor(ctypes.c_void_p(descriptor)))
        return plan

    def run(
        self,
        plan: int,
        addresses: Mapping[int, int],
        workspace: int,
        into: tuple[str, ctypes.c_void_p] | None = None,
    ) -> None:
        """One execution, with a variant pack of its own, or its nodes: a verb and the graph."""
        pack = self.make(
            "VARIANT_PACK",
            ("VARIANT_PACK_WORKSPACE", "VOID_PTR", [workspace]),
            ("VARIANT_PACK_DATA_POINTERS", "VOID_PTR", list(addresses.values())),
            ("VARIANT_PACK_UNIQUE_IDS", "INT64", list(addresses)),
        )
        arguments = [self.handle, ctypes.c_void_p(plan), ctypes.c_void_p(pack)]
        if into:
            check(getattr(self.dnn, f"cudnnBackend{into[0]}CudaGraph")(*arguments, into[1]))
        else:
            check(self.dnn.cudnnBackendExecute(*arguments))
        check(self.dnn.cudnnBackendDestroyDescriptor(ctypes.c_void_p(pack)))

    def graph(self) -> ctypes.c_void_p:
        """An empty CUDA graph."""
        made = ctypes.c_void_p()
        check(self.cuda.cuGraphCreate(ctypes.byref(made), 0))
        return made

    def child(
        self, parent: ctypes.c_void_p, graph: ctypes.c_void_p
    ) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """Puts a copy of the graph into a node of the parent: the node, and the copy."""
        node, inside = ctypes.c_void_p(), ctypes.c_void_p()
        check(self.cuda.cuGraphAddChildGraphNode(ctypes.byref(node), parent, None, 0, graph))
        check(self.cuda.cuGraphChildGraphNodeGetGraph(node, ctypes.byref(inside)))
        return node, inside

    def launch(
        self, graph: ctypes.c_void_p, executable: ctypes.c_void_p | None = None
    ) -> ctypes.c_void_p:
        """Launches the graph: instantiated, or brought into what was made of it before."""
        if executable:
            result = (ctypes.c_void_p * 3)()
            check(self.cuda.cuGraphExecUpdate_v2(executable, graph, result))
        else:
            executable = ctypes.c_void_p()
            made = ctypes.byref(executable)
            check(self.cuda.cuGraphInstantiateWithFlags(made, graph, ctypes.c_ulonglong(0)))
        check(self.cuda.cuGraphLaunch(executable, None))
        return executable


def convolution(p: Program) -> Iterator[tuple[str, Touches]]:
    """Forward; the plan outlives what it was made of, and runs in two places."""
    x, w, y = p.tensor(1, [2, 8, 6, 6]), p.tensor(2, [4, 8, 3, 3]), p.tensor(3, [2, 4, 4, 4])
    beta: Attribute = ("OPERATION_CONVOLUTION_FORWARD_BETA", "FLOAT", [0.0])
    kind = "CONVOLUTION_FORWARD"
    plan = p.plan([p.operation(kind, kind, beta, X=x, W=w, Y=y)])
    for tensor in (x, w, y):
        check(p.dnn.cudnnBackendDestroyDescriptor(ctypes.c_void_p(tensor)))
    for place in (p.base, p.base + 8 * MIB):
        p.run(plan, {1: place, 2: place + MIB, 3: place + 2 * MIB}, place + 3 * MIB)
        yield (
            "convolution",
            [
                [place, 2 * 8 * 6 * 6 * 4, READ],
                [place + MIB, 4 * 8 * 3 * 3 * 4, READ],
                [place + 2 * MIB, 2 * 4 * 4 * 4 * 4, WRITE],
                [place + 3 * MIB, 2000, SCRATCH],
            ],
        )


def product(p: Program) -> Iterator[tuple[str, Touches]]:
    """A matrix product, a bias, a scale by value, an activation."""
    virtual: Attribute = ("TENSOR_IS_VIRTUAL", "BOOLEAN", [True])
    by_value: Attribute = ("TENSOR_IS_BY_VALUE", "BOOLEAN", [True])
    point = ("POINTWISE", "POINTWISE")
    a, b = p.tensor(1, [3, 16, 8]), p.tensor(2, [3, 8, 32])
    steps = [p.tensor(10 + i, [3, 16, 32], virtual) for i in range(3)]
    bias, scale = p.tensor(3, [1, 1, 32]), p.tensor(4, [1, 1, 1], by_value)
    plan = p.plan(
        [
            p.operation("MATMUL", "MATMUL", ADESC=a, BDESC=b, CDESC=steps[0]),
            p.operation(*point, XDESC=steps[0], BDESC=bias, YDESC=steps[1]),
            p.operation(*point, XDESC=steps[1], BDESC=scale, YDESC=steps[2]),
            p.operation(*point, XDESC=steps[2], YDESC=p.tensor(5, [3, 16, 32])),
        ],
        engine=6,
    )
    number = ctypes.c_float(0.5)
    places = {uid: p.base + uid * MIB for uid in (1, 2, 3, 5)}
    p.run(plan, {**places, 4: ctypes.addressof(number)}, p.base + 9 * MIB)
    yield (
        "product",
        [
            [places[1], 3 * 16 * 8 * 4, READ],
            [places[2], 3 * 8 * 32 * 4, READ],
            [places[3], 32 * 4, READ],
            [places[5], 3 * 16 * 32 * 4, WRITE],
            [p.base + 9 * MIB, 7000, SCRATCH],
        ],
    )


def normalisation(p: Program) -> Iterator[tuple[str, Touches]]:
    """In training, with the running statistics in place: one touch each."""
    names = (
        "XDESC",
        "SCALE_DESC",
        "BIAS_DESC",
        "INPUT_RUNNING_MEAN_DESC",
        "OUTPUT_RUNNING_MEAN_DESC",
    )
    tensors = {name: p.tensor(uid, [1, 16]) for uid, name in enumerate(names, 1)}
    tensors |= {"YDESC": p.tensor(6, [1, 16]), "MEAN_DESC": p.tensor(7, [1, 16])}
    phase: Attribute = ("OPERATION_NORM_FWD_PHASE", "NORM_FWD_PHASE", [1])
    plan = p.plan([p.operation("NORM_FORWARD", "NORM_FWD", phase, **tensors)], engine=0)
    places = {uid: p.base + uid * MIB for uid in range(1, 8)}
    places[5] = places[4]
    p.run(plan, places, 0)
    modes = {1: READ, 2: READ, 3: READ, 4: UPDATE, 6: WRITE, 7: WRITE}
    yield "normalisation", [[places[uid], 64, mode] for uid, mode in modes.items()]


def ragged(p: Program) -> Iterator[tuple[str, Touches]]:
    """Packed sequences: the shape says more than there is, the allocation holds."""
    offsets = p.tensor(3, [5, 1, 1, 1])
    uneven: Attribute = ("TENSOR_RAGGED_OFFSET_DESC", "BACKEND_DESCRIPTOR", [offsets])
    q, o = p.tensor(1, [4, 2, 64, 8], uneven), p.tensor(2, [4, 2, 64, 8], uneven)
    plan = p.plan([p.operation("SDPA_FWD", "SDPA_FWD", QDESC=q, ODESC=o)], engine=0)
    small, large = p.memory(5120), p.memory(MIB)
    p.run(plan, {1: small, 2: large, 3: p.base}, 0)
    yield "ragged", [[small, 5120, READ], [large, 4 * 2 * 64 * 8 * 4, UPDATE], [p.base, 20, READ]]


def from_file(p: Program) -> Iterator[tuple[str, Touches]]:
    """A plan with no graph: blocks, but its own workspace."""
    plan = p.make("EXECUTION_PLAN")
    one, two, space = p.memory(4096), p.memory(8192), p.memory(MIB)
    p.run(plan, {1: one, 2: two}, space)
    yield "from a file", [[one, 4096, UPDATE], [two, 8192, UPDATE], [space, 1000, SCRATCH]]


def if_shown(*touches: list[int]) -> Touches:
    """What a kernel touches by the addresses that it shows."""
    return list(touches) if os.environ["EMU_LIBRARY"] == "shown" else []


def reshape(p: Program) -> tuple[int, Callable[[int], dict[int, int]], Callable[[int], Touches]]:
    """A plan that reads 400 bytes and writes 200; its addresses and touches in a place."""
    operation = p.operation("RESHAPE", "RESHAPE", XDESC=p.tensor(1, [100]), YDESC=p.tensor(2, [50]))

    def addresses(place: int) -> dict[int, int]:
        return {1: place, 2: place + 4096}

    def touches(place: int) -> Touches:
        return [[place, 400, READ], [place + 4096, 200, WRITE]]

    return p.plan([operation], engine=0), addresses, touches


def populated(p: Program) -> Iterator[tuple[str, Touches]]:
    """Nodes in a graph of the program touch what the call told that added or set them."""
    plan, addresses, touches = reshape(p)
    memory, space = p.memory(MIB), p.memory(MIB)
    here, there = memory, memory + MIB // 2
    scratch = [space, 1000, SCRATCH]
    graph = p.graph()
    p.run(plan, addresses(here), space, ("Populate", graph))
    executable = p.launch(graph)
    yield "populated", [*touches(here), scratch]
    p.run(plan, addresses(there), space, ("Update", graph))
    p.launch(graph, executable)
    yield "updated", [*touches(there), scratch]
    p.launch(graph)
    yield "instantiated anew", [*touches(there), scratch]

    # a node that is disabled may use no workspace, whose content is somebody's then
    node, one = ctypes.c_void_p(), ctypes.c_size_t(1)
    check(p.cuda.cuGraphGetNodes(graph, ctypes.byref(node), ctypes.byref(one)))
    check(p.cuda.cuGraphNodeSetEnabled(executable, node, 0))
    p.launch(graph, executable)
    yield "updated with a node disabled", [*touches(there), [space, 1000, UPDATE]]

    # the workspace's node stays as it is: it alone tells of it now, if it shows its address
    p.run(plan, addresses(here), 0, ("Update", graph))
    p.launch(graph)
    yield "updated in part", [*touches(here), *if_shown([space, 1000, UPDATE])]
    check(p.cuda.cuGraphDestroy(graph))
    scalar = ctypes.byref(ctypes.c_float(1))
    x, y = ctypes.c_void_p(here), ctypes.c_void_p(here + 4096)
    check(p.dnn.cudnnActivationForward(p.handle, None, scalar, None, x, scalar, None, y))
    yield "afterwards", if_shown([here, 400, UPDATE], [here + 4096, 200, UPDATE])


def copied(p: Program) -> Iterator[tuple[str, Touches]]:
    """As the library's frontend does: populated aside, then put into the program's graph."""
    plan, addresses, touches = reshape(p)
    memory, space = p.memory(MIB), p.memory(MIB)
    here, there, scratch = memory, memory + MIB // 2, [space, 1000, SCRATCH]
    aside, outer, clone = p.graph(), p.graph(), ctypes.c_void_p()
    p.run(plan, addresses(here), space, ("Populate", aside))
    node, inside = p.child(outer, aside)
    check(p.cuda.cuGraphDestroy(aside))
    executable = p.launch(outer)
    yield "in a child", [*touches(here), scratch]
    check(p.cuda.cuGraphClone(ctypes.byref(clone), outer))
    p.run(plan, addresses(there), space, ("Update", inside))
    p.launch(outer, executable)
    yield "updated in a child", [*touches(there), scratch]
    p.launch(clone)
    yield "in a clone", [*touches(here), scratch]

    another = p.graph()
    p.run(plan, addresses(here), 0, ("Populate", another))
    any_node = (ctypes.c_uint64 * 32)(GRAPH_NODE, 0, another.value or 0)
    check(p.cuda.cuGraphNodeSetParams(node, any_node))
    p.launch(outer)
    yield "another child", touches(here)
    for graph in (outer, another, clone):
        check(p.cuda.cuGraphDestroy(graph))

    # the driver gives their addresses to other nodes
    graph, fill = p.graph(), (ctypes.c_uint64 * 5)(memory, 64, 1 << 32, 64, 1)
    for _ in range(16):
        check(p.cuda.cuGraphAddMemsetNode(ctypes.byref(node), graph, None, 0, fill, None))
    p.launch(graph)
    yield "others", [[memory, 64, WRITE]] * 16


def fused(p: Program) -> Iterator[tuple[str, Touches]]:
    """Fused operations of the legacy interface: blocks, and the workspace that is told."""
    pack = ctypes.c_void_p()
    check(p.dnn.cudnnCreateFusedOpsVariantParamPack(ctypes.byref(pack), 0))
    x, y, space = p.memory(4096), p.memory(8192), p.memory(MIB)
    size = ctypes.c_size_t(777)
    for label, value in (("XDATA", x), ("YDATA", y), ("WORKSPACE", space)):
        number = VALUES[f"CUDNN_PTR_{label}"]
        at = ctypes.c_void_p(value)
        check(p.dnn.cudnnSetFusedOpsVariantParamPackAttribute(pack, number, at))
    number = VALUES["CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES"]
    check(p.dnn.cudnnSetFusedOpsVariantParamPackAttribute(pack, number, ctypes.byref(size)))
    check(p.dnn.cudnnFusedOpsExecute(p.handle, None, pack))
    yield "fused", [[x, 4096, READ], [y, 8192, UPDATE], [space, 777, SCRATCH]]


def main(library: str) -> None:
    """Runs everything."""
    program = Program(library)
    parts = (convolution, product, normalisation, ragged, from_file, populated, copied, fused)
    for part in parts:
        for name, touches in part(program):
            print(json.dumps([name, sorted(touches)]))
    check(program.cuda.cuCtxSynchronize())


main(sys.argv[1])
