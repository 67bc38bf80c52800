"""Parses Examples by one op that is made for many features.

A graph that serves spends most of a large request on `ParseExample`: with 200 features, 20 of 22 ms
of 512 rows once its lookups are fused. The op that replaces it reads the same features into the
same tensors, and leaves whatever it does not know, and all errors, to TensorFlow's parser.

Functions of datasets are not looked into, as no session runs them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence

import numpy as np

from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.control_flow import loops_of
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted
from graph_opt.rules.parsed_examples import PARSERS, ParsedExamples, parsed_examples

_LEAST_FEATURES = 8  # of fewer, parsing takes less time than the rest of a request
_SUFFIX = "group_parse"
_LEFT = "TensorFlow parses the Examples of '{}': it has {}"
_KEPT = ("Tdense", "num_sparse", "sparse_types", "dense_shapes")


def parse_examples(state: PassState, options: SessionOptions) -> PassState:
    """Replaces the parsers of a graph whose lookups are fused."""
    if options.group_embedding is None:
        return state
    for node in state.view.of_op(*PARSERS):
        if node in state.name_map.not_run or not state.view.is_read(node):
            continue
        parsed = parsed_examples(state.view, node)
        if parsed.features < _LEAST_FEATURES:
            continue
        # What it would be given anew in a loop, such as names, would have to enter that first.
        unusual = "a loop around it" if node in loops_of(state.view) else parsed.unusual
        if unusual:
            state = state.reporting(_LEFT.format(node, unusual))
        else:
            state = _replaced(state, parsed)
    return state


def _replaced(state: PassState, parsed: ParsedExamples) -> PassState:
    view = state.view
    nodes = _nodes(view, parsed)
    name = nodes[-1].name
    edits = Edits(view)
    outputs = [
        TensorRef(parsed.node, index) for index in range(len(view.dtypes(parsed.node) or ()))
    ]
    for output in outputs:
        edits.replace(output, output._replace(node=name).input_name)
    edits.replace_waits(parsed.node, name)
    told = "Examples of {} parsed by an op of ours".format(counted(parsed.features, "feature"))
    state = state.rewritten(edits.rewrite(nodes)).without({parsed.node}).reporting(told)
    substitutes = {str(output): str(output._replace(node=name)) for output in outputs}
    name_map = dataclasses.replace(
        state.name_map, substitutes={**state.name_map.substitutes, **substitutes}
    )
    return dataclasses.replace(state, name_map=name_map)


def _nodes(view: GraphView, parsed: ParsedExamples) -> List[Any]:
    """The op that parses, last, and the constants that it needs."""
    writer = NodeWriter(view, parsed.node, view.device(parsed.node))
    given = view.nodes[parsed.node]
    keys: Dict[str, Any] = {
        argument: names if isinstance(names, TensorRef) else _constant(writer, argument, names)
        for argument, names in (
            ("sparse_keys", parsed.sparse_keys),
            ("dense_keys", parsed.dense_keys),
        )
    }
    kept = {key: given.attr[key] for key in _KEPT if key in given.attr}
    if "num_sparse" not in kept:
        kept["num_sparse"] = len(given.attr["sparse_types"].list.type)
    writer.call(
        _SUFFIX,
        "GroupParseExample",
        waits_for=view.controls(parsed.node),
        serialized=parsed.serialized,
        names=parsed.names,
        dense_defaults=list(parsed.defaults),
        **keys,
        **kept,
    )
    return writer.nodes


def _constant(writer: NodeWriter, argument: str, names: Sequence[bytes]) -> Tensor:
    return writer.constant("{}/{}".format(_SUFFIX, argument), np.array(names, object))
