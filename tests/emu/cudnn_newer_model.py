"""What the functions of cuDNN 9.22 and later touch: shapes from the vendor's descriptions."""

from random import Random
from typing import Any

import numpy as np

from tests.emu.cudnn_model import (
    BFLOAT16,
    DOUBLE,
    FLOAT,
    HALF,
    READ,
    SCRATCH,
    TYPES,
    UPDATE,
    WRITE,
    Call,
)

Shapes = dict[str, tuple[tuple[int, ...], int, int]]  # name: shape, bytes of an element, mode


def random_numbers(random: Random, call: Call) -> None:
    """Fills the numbers of a call."""
    for name, kind in call.types.items():
        if kind == "int":
            call.values[name] = random.randint(1, 9)
        elif kind == "size_t":
            call.values[name] = random.randint(0, 5000)
        elif kind == "cudnnDataType_t":
            call.values[name] = random.choice([FLOAT, DOUBLE, HALF, BFLOAT16])
        elif kind == "cudnnGnnAggOp_t":
            call.values[name] = random.randrange(4)
    if "graph" in call.types:
        call.values["graph"] = {
            **{name: random.randint(1, 50) for name in ("nSrcNodes", "nDstNodes", "nIndices")},
            "idxType": random.choice([4, 10]),
        }
    if "params" in call.types:
        heads = random.randint(1, 4)
        call.values["params"] = {"numHeads": heads, "concatHeads": random.randrange(2)}
        call.values["dimNode"] = heads * random.randint(1, 8)


def convolution(v: dict[str, Any]) -> Shapes:
    """Causal convolutions; gradients of weights are added to."""
    size = TYPES[v["dataType"]].itemsize
    gradient = TYPES[v.get("dwDataType", v["dataType"])].itemsize
    signal = (v["batch"], v["dim"], v["seqLen"])
    channels = (v["dim"],)
    shapes: Shapes = {
        "x": (signal, size, READ),
        "dy": (signal, size, READ),
        "y": (signal, size, WRITE),
        "dx": (signal, size, WRITE),
        "yGated": (signal, size, WRITE),
        "bias": (channels, size, READ),
        "skipBias": (channels, size, READ),
        "dbias": (channels, gradient, UPDATE),
        "dskipBias": (channels, gradient, UPDATE),
        "workspace": ((v.get("workspaceSizeInBytes", 0),), 1, SCRATCH),
        "reserveSpace": ((v.get("reserveSpaceSizeInBytes", 0),), 1, WRITE),
    }
    if "kernelSize" in v:
        weight = (v["dim"], v["kernelSize"])
        shapes |= {"weight": (weight, size, READ), "dweight": (weight, gradient, UPDATE)}
    else:
        triple = (v["batch"], v["dim"], 3, v["seqLen"])
        inner, outer = (v["dim"], 3, v["kernelSizeProj"]), (v["dim"], v["kernelSizeMixer"])
        shapes |= {
            "x": (triple, size, READ),
            "dx": (triple, size, WRITE),
            "weightsProj": (inner, size, READ),
            "weightsMixer": (outer, size, READ),
            "dweightsProj": (inner, gradient, UPDATE),
            "dweightsMixer": (outer, gradient, UPDATE),
        }
    return shapes


def aggregation(v: dict[str, Any]) -> Shapes:
    """Features of nodes, edges and what is passed along, gathered at each target node."""
    size = TYPES[v["dataType"]].itemsize
    graph = v["graph"]
    index = {4: 4, 10: 8}[graph["idxType"]]
    sources, targets, edges = graph["nSrcNodes"], graph["nDstNodes"], graph["nIndices"]
    node, edge, along = v["nodeFeatDim"], v["edgeFeatDim"], v["concatFeatDim"]
    return {
        "nodeFeatures": ((sources, node), size, READ),
        "edgeFeatures": ((edges, edge), size, READ),
        "concatFeatures": ((targets, along), size, READ),
        "output": ((targets, node + edge + along), size, WRITE),
        "gradOutput": ((targets, node + edge + along), size, READ),
        "outPositions": ((targets, node + edge), index, WRITE),
        "gradNodeFeatures": ((sources, node), size, UPDATE),
        "gradEdgeFeatures": ((edges, edge), size, UPDATE),
        "gradConcatFeatures": ((targets, along), size, WRITE),
    }


def attention(v: dict[str, Any]) -> Shapes:
    """Attention over edges; the second version has vectors, not numbers, for each."""
    size = TYPES[v["dataType"]].itemsize
    gradient = TYPES[v.get("gradDataType", v.get("gradType", 0))].itemsize
    weight_gradient = TYPES[v.get("gradWeightType", v.get("gradType", 0))].itemsize
    graph, heads = v["graph"], v["params"]["numHeads"]
    sources, targets, edges = graph["nSrcNodes"], graph["nDstNodes"], graph["nIndices"]
    node = v["dimNode"]
    second = "dimEdge" not in v
    edge = node if second else v["dimEdge"]
    weights = node if second else 2 * node + edge
    out = node if v["params"]["concatHeads"] else node // heads
    return {
        "srcFeatures": ((sources, node), size, READ),
        "dstFeatures": ((targets, node), size, READ),
        "edgeFeatures": ((edges, edge), size, READ),
        "attnWeights": ((weights,), size, READ),
        "dropoutMask": ((heads, edges), 4, READ),
        "gradAttention": ((heads, edges), 4, READ),
        "output": ((targets, out), size, WRITE),
        "gradOut": ((targets, out), size, READ),
        "smScores": ((2, heads, edges), 4, WRITE),
        "actScores": ((edges, node), size, WRITE),
        "gradSrcFeatures": ((sources, node), gradient, WRITE),
        "gradDstFeatures": ((targets, node), gradient, WRITE),
        "gradEdgeFeatures": ((edges, edge), gradient, WRITE),
        "gradWeights": ((weights,), weight_gradient, WRITE),
        "gradSmScores": ((2, heads, edges), 4, WRITE),
        "gradWspaceFeat": ((edges, node), gradient, SCRATCH),
        "gradWspaceWeights": ((targets, weights), weight_gradient, SCRATCH),
    }


def is_newer(symbol: str) -> bool:
    """True for functions that this file knows."""
    return "CausalConv1d" in symbol or symbol.startswith("cudnnGnn")


def expected(call: Call, addresses: dict[str, int]) -> dict[int, tuple[int, int]]:
    """By first byte: bytes and mode. A pointer to const is read, whatever the name is used for."""
    family = (
        convolution
        if "CausalConv1d" in call.symbol
        else aggregation
        if "AggSimple" in call.symbol
        else attention
    )
    shapes = family(call.values)
    found = {}
    for name in call.pointers():
        shape, size, mode = shapes[name]
        length = int(np.prod(shape)) * size
        mode = READ if "const" in call.types[name] else mode
        if name == "reserveSpace" and call.symbol.endswith("Backward"):
            mode = READ
        if addresses[name] and length:
            found[addresses[name]] = (length, mode)
    return found
