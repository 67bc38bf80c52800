"""Every edge, constant and operation between ids and result is checked: changes are refused."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules import Lookup, find_lookups
from graph_opt.rules.lookup_inputs import LookupInputs, lookup_inputs
from tests.quick_cases import slow_but
from tests.rules.lookup_models import CORE_MODELS, Model
from tests.rules.lookup_values import code_of, shaped_view


def safe(weighted: bool, default_id: Optional[int], **options: Any) -> None:
    model = Model(tf, **options)
    tf.nn.safe_embedding_lookup_sparse(
        model.table(),
        model.sparse_ids(),
        model.sparse_weights() if weighted else None,
        combiner="sqrtn",
        default_id=default_id,
        partition_strategy=model.strategy,
    )


DIV: Dict[str, Any] = {"partitions": 3, "strategy": "div"}
PATTERNS: Dict[str, Callable[[], None]] = {
    "safe": lambda: safe(False, None),
    "safe_weighted_div": lambda: safe(True, None, **DIV),
    "safe_weighted_default_mod": lambda: safe(True, 2, partitions=3),
    "dense_div": lambda: CORE_MODELS["embedding_lookup"](Model(tf, resource=True, **DIV)),
    "classic": lambda: CORE_MODELS["sparse_mean"](Model(tf, resource=True)),
    "weighted_mean": lambda: CORE_MODELS["sparse_weighted_mean"](Model(tf)),
    "weighted_sqrtn_mod": lambda: CORE_MODELS["sparse_weighted_sqrtn"](Model(tf, partitions=2)),
}
# Weights and the rule of division of the longest one are in others.
QUICK = [name for name in PATTERNS if name != "safe_weighted_div"]


def changed(view: GraphView, name: str, change: Callable[[Any], None]) -> GraphView:
    graph_def = tf.GraphDef(node=view.nodes.values(), library=view.library)
    change(next(node for node in graph_def.node if node.name == name))
    alien = graph_def.node.add(name="alien", op="Placeholder")
    alien.attr["dtype"].CopyFrom(tf.AttrValue(type=tf.float32.as_datatype_enum))
    return GraphView(graph_def)


def pattern_nodes(view: GraphView, lookup: Lookup) -> List[str]:
    """All nodes between inputs and output, with constants but without reads of tables."""
    inputs = {tensor.node for tensor in lookup_inputs(view, lookup).tensors()}
    tables = {name for name in view.nodes if name.startswith("table")}
    nodes: Dict[str, None] = {lookup.output.node: None}
    stack = list(nodes)
    while stack:
        for tensor in view.inputs(stack.pop()):
            if tensor.node not in inputs | tables and tensor.node not in nodes:
                nodes[tensor.node] = None
                stack.append(tensor.node)
    return list(nodes)


def still_found(view: GraphView, lookup: Lookup) -> Optional[LookupInputs]:
    """The inputs of the op that would still replace the lookup in the changed graph."""
    for found in find_lookups(view).lookups:
        if found.output == lookup.output and code_of(view, found) == "":
            inputs = lookup_inputs(view, found)
            given = [tensor.node for tensor in inputs.tensors()]
            return None if "alien" in view.ancestors(given) else inputs
    return None


@pytest.mark.parametrize("pattern", slow_but(PATTERNS, *QUICK))
def test_looks_at_every_edge(pattern: str) -> None:
    PATTERNS[pattern]()
    view = shaped_view()
    lookup = find_lookups(view).lookups[0]
    missed = []
    for name in pattern_nodes(view, lookup):
        for slot in range(len(view.inputs(name))):

            def rewire(node: Any, slot: int = slot) -> None:
                node.input[slot] = "alien"

            if still_found(changed(view, name, rewire), lookup):
                missed.append((name, slot))
    assert missed == []


@pytest.mark.parametrize("pattern", slow_but(PATTERNS, *QUICK))
def test_looks_at_every_constant(pattern: str) -> None:
    PATTERNS[pattern]()
    view = shaped_view()
    lookup = find_lookups(view).lookups[0]
    given = lookup_inputs(view, lookup)

    def increase(node: Any) -> None:
        value = tf.make_ndarray(node.attr["value"].tensor)
        value = ~value if value.dtype == bool else value + np.ones_like(value)
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))

    missed = []
    for name in pattern_nodes(view, lookup):
        if view.op(name) == "Const":
            if still_found(changed(view, name, increase), lookup) == given:
                missed.append(name)
    assert missed == []


@pytest.mark.parametrize("pattern", slow_but(PATTERNS, *QUICK))
def test_looks_at_every_operation(pattern: str) -> None:
    PATTERNS[pattern]()
    view = shaped_view()
    lookup = find_lookups(view).lookups[0]

    def replace(node: Any) -> None:
        node.op = "Other"

    names = [name for name in pattern_nodes(view, lookup) if view.op(name) != "Const"]
    assert [name for name in names if still_found(changed(view, name, replace), lookup)] == []
