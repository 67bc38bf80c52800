"""A graph in which the bodies of functions stand where they are called, to be counted or to run.

    x ─> StatefulPartitionedCall ─> y        x ─> call/gather ─> call/sum ─> y

In a body that TensorFlow 2 has traced, results wait for all that the function runs, what merely
reads included. In a graph that is to run they wait for what acts, such as an assignment or an
assertion, so that what reads can be replaced. Calls that say so stay calls, and so do those inside
loops and conditionals of TensorFlow 1, where a body without inputs would run in any case.

The rules are those of TensorFlow's own executor (core/common_runtime/inline_function_utils.h), by
which a session runs such calls anyway.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, FrozenSet, List, Mapping, Optional

from graph_opt.compat import tf
from graph_opt.compat.function_bodies import function_body
from graph_opt.compat.op_definitions import is_stateful, output_dtypes
from graph_opt.compat.stateful_ops import (
    HANDLES,
    PLACEHOLDERS,
    READS,
    VARIABLES,
    called_functions,
)
from graph_opt.graph.called_bodies import Call, CalledBodies
from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW
from graph_opt.graph.rewrite import OUTPUT_SHAPES
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.graph.walks import reach

RETURNED = "IdentityN"
"""What becomes of a call that returns several tensors: each output is the input in its place."""

_CALLS = ("StatefulPartitionedCall", "PartitionedCall")
# Attributes of calls or functions that are not for inlining: compiled as a whole, or exchanged for
# another implementation on another device.
_STAYS = ("_noinline", "_XlaMustCompile", "api_implements", "_implements")
_HARMLESS = VARIABLES | HANDLES | PLACEHOLDERS | READS


def with_bodies(graph_def: Any, bodies: CalledBodies) -> Any:
    """A graph with its bodies; each call that has one is the place where its results come together.

    Args:
      graph_def: A GraphDef; not changed.
      bodies: Those of its calls; not changed.
    """
    result = tf.GraphDef(versions=graph_def.versions, library=graph_def.library)
    result.node.extend(graph_def.node)
    result.node.extend(bodies.nodes.values())
    signatures = {one.signature.name: one.signature for one in graph_def.library.function}
    for node in result.node:
        if node.name in bodies.results:
            dtypes = _dtypes(node, signatures)
            _return(node, bodies.results[node.name], dtypes, bodies.others[node.name])
    return result


def inline_calls(graph_def: Any, named: AbstractSet[str]) -> int:
    """Puts bodies in place of calls, and calls in bodies, and removes functions without calls.

    Args:
      graph_def: A GraphDef, which is changed.
      named: Nodes that something outside of the graph names. A call among them becomes a node of
        the same name that passes its results on.

    Returns:
      How many calls there were.

    Raises:
      tf.errors.InvalidArgumentError: The graph is not valid.
    """
    if not graph_def.library.function:
        return 0
    view = GraphView(graph_def)
    framed = view.descendants(view.of_op(*INTO_CONTROL_FLOW))

    def replaced(node: Any, library: Mapping[str, Any]) -> Optional[Call]:
        return None if node.name in framed else _replaced(node, library)

    bodies = CalledBodies(graph_def, called=replaced, scope="{}")
    if not bodies.results:
        return 0
    _keep_order(view.nodes, bodies)
    result = with_bodies(graph_def, bodies)
    _wait_for_what_acts(result, bodies)
    nodes = _without_passed_on(result, bodies, named)
    del graph_def.node[:]
    graph_def.node.extend(nodes)
    _keep_called(graph_def)
    return len(bodies.results)


def _replaced(node: Any, library: Mapping[str, Any]) -> Optional[Call]:
    """The function whose body is to stand for a node; None if there is none."""
    name = node.attr["f"].func.name if node.op in _CALLS else node.op
    function = library.get(name)
    if function is None:
        return None
    for attributes in (node.attr, function.attr):
        if any(key in attributes and _is_set(attributes[key]) for key in _STAYS):
            return None
    values = [value for inner in function.node_def for value in inner.attr.values()]
    given = _data(node)
    if any(value.placeholder for value in values):
        return None
    if len(given) != len(function.signature.input_arg):
        return None
    return None if function_body(function, given, node.name) is None else Call((name,), 0)


def _is_set(value: Any) -> bool:
    return bool(value.b or value.s)


def _keep_order(nodes: Mapping[str, Any], bodies: CalledBodies) -> None:
    """Has bodies wait for what their calls wait for, and results for all that the calls read."""
    for name, node in bodies.nodes.items():
        call = bodies.calls[name]
        if is_stateful(node.op) or not _data(node):
            waits = _waits(bodies.nodes.get(call, nodes.get(call)))
            node.input.extend(text for text in waits if text not in node.input)
    for call, others in bodies.others.items():
        given = _data(bodies.nodes.get(call, nodes.get(call)))
        others[:0] = [TensorRef.parse(text).node for text in given]


def _wait_for_what_acts(graph_def: Any, bodies: CalledBodies) -> None:
    """Has nodes of bodies wait for what acts, in place of what comes behind it or reads.

    What acts itself waits as before: it may change what was to be read first.
    """
    acting = _acting_before(GraphView(graph_def))
    for node in graph_def.node:
        if not _is_added(node.name, bodies) or node.op == "NoOp" or _acts(node):
            continue
        data = _data(node)
        before = {each for text in _waits(node) for each in acting.get(text[1:], ())}
        before.difference_update(*(acting.get(TensorRef.parse(one).node, ()) for one in data))
        node.input[:] = [*data, *("^" + each for each in sorted(before))]


def _without_passed_on(graph_def: Any, bodies: CalledBodies, named: AbstractSet[str]) -> List[Any]:
    """The nodes, which read results where these are computed, and what nothing needs left out.

    A call stays between them if something has to be done before its results are used.
    """
    results = {
        node.name: bodies.results[node.name]
        for node in graph_def.node
        if node.name in bodies.results and not _waits(node)
    }
    for node in graph_def.node:
        for slot, text in enumerate(node.input):
            node.input[slot] = _computed(text, results)
    own = [
        node.name
        for node in graph_def.node
        if not _is_added(node.name, bodies) or node.name in named
    ]
    kept = GraphView(graph_def).ancestors(own)
    return [node for node in graph_def.node if node.name in kept]


def _is_added(name: str, bodies: CalledBodies) -> bool:
    return name in bodies.nodes or name in bodies.results


def _computed(text: str, results: Mapping[str, List[str]]) -> str:
    """The tensor that one of a call is, unless it has to wait there."""
    while not text.startswith("^"):
        name, index = TensorRef.parse(text)
        if index >= len(results.get(name, ())):
            break
        text = results[name][index]
    return text


def _return(call: Any, results: List[str], dtypes: Optional[List[int]], others: List[str]) -> None:
    """Makes a call the place where its results come together, behind others.

    One of unknown dtypes stays a call, and waits for its results.
    """
    waits = [*_waits(call), *("^" + name for name in others)]
    if dtypes is None or 0 in dtypes or len(dtypes) != len(results):
        waits += ["^" + TensorRef.parse(text).node for text in results]
        call.input[:] = [*_data(call), *dict.fromkeys(waits)]
        return
    kept = tf.NodeDef(name=call.name, device=call.device, op="NoOp")
    kept.input.extend([*results, *dict.fromkeys(waits)])
    if len(dtypes) == 1:
        kept.op = "Identity"
        kept.attr["T"].type = dtypes[0]
    elif dtypes:
        kept.op = RETURNED
        kept.attr["T"].list.type.extend(dtypes)
    if dtypes and OUTPUT_SHAPES in call.attr:
        kept.attr[OUTPUT_SHAPES].CopyFrom(call.attr[OUTPUT_SHAPES])
    call.CopyFrom(kept)


def _dtypes(call: Any, signatures: Mapping[str, Any]) -> Optional[List[int]]:
    """Those of what a call returns; None if they are not known."""
    if call.op in signatures:
        return [result.type for result in signatures[call.op].output_arg]
    if "Tout" in call.attr:
        return list(call.attr["Tout"].list.type)
    return output_dtypes(call)


def _data(node: Any) -> List[str]:
    return [text for text in node.input if not text.startswith("^")]


def _waits(node: Any) -> List[str]:
    return [text for text in node.input if text.startswith("^")]


def _acting_before(view: GraphView) -> Dict[str, FrozenSet[str]]:
    """For each node the last ones before it that act, or itself."""
    found: Dict[str, FrozenSet[str]] = {}
    none: FrozenSet[str] = frozenset()
    for name in view.topological_order() or ():
        if _acts(view.nodes[name]):
            found[name] = frozenset([name])
            continue
        before = {found[source] for source in view.predecessors(name)} - {none}
        found[name] = none.union(*before) if len(before) != 1 else before.pop()
    return found


def _acts(node: Any) -> bool:
    """Whether it matters that and when a node runs, beside what it computes."""
    return node.op not in _HARMLESS and is_stateful(node.op)


def _keep_called(graph_def: Any) -> None:
    """Removes the functions that no node calls any more, itself or by others."""
    library = {one.signature.name: one for one in graph_def.library.function}
    gradients = {one.function_name: one.gradient_func for one in graph_def.library.gradient}

    def called(nodes: Any) -> List[str]:
        names = [*called_functions(nodes), *(node.op for node in nodes)]
        return [name for name in names if name in library]

    def needed(name: str) -> List[str]:
        return [*called(library[name].node_def), *filter(None, [gradients.get(name)])]

    kept = reach(called(graph_def.node), needed)
    remaining = type(graph_def.library)()
    remaining.function.extend(one for name, one in library.items() if name in kept)
    remaining.gradient.extend(
        one for one in graph_def.library.gradient if one.function_name in kept
    )
    graph_def.library.CopyFrom(remaining)
