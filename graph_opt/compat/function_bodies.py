"""The bodies of functions as nodes of a graph.

In a FunctionDef, tensors are named `node:output:index`, by the outputs that the ops declare, and
arguments by their names.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from tensorflow.python.framework import op_def_registry


class FunctionBody(NamedTuple):
    """What a call of a function computes.

    Attributes:
      nodes: Copies of its NodeDefs, with names and inputs as in a graph.
      results: For each result, the tensor that it is.
      controls: Nodes that a call runs even if no result depends on them.
    """

    nodes: List[Any]
    results: List[str]
    controls: List[str]


def function_body(function: Any, arguments: Sequence[str], scope: str) -> Optional[FunctionBody]:
    """The nodes of a function, called with these arguments.

    Args:
      function: A FunctionDef.
      arguments: A tensor for each argument, as NodeDefs spell it.
      scope: Name scope of the nodes.

    Returns:
      None if the function has an op that this process does not know.
    """
    names = {arg.name: text for arg, text in zip(function.signature.input_arg, arguments)}
    for node in function.node_def:
        outputs = _outputs(node)
        if outputs is None:
            return None
        full = "{}/{}".format(scope, node.name)
        names["^" + node.name] = "^" + full
        for index, output in enumerate(outputs):
            names["{}:{}".format(node.name, output)] = "{}:{}".format(full, index)
    nodes = []
    for node in function.node_def:
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = "{}/{}".format(scope, node.name)
        copy.input[:] = [names[text] for text in node.input]
        copy.attr.pop("_class", None)
        nodes.append(copy)
    results = [names[function.ret[result.name]] for result in function.signature.output_arg]
    controls = ["{}/{}".format(scope, name) for name in function.control_ret.values()]
    return FunctionBody(nodes, results, controls)


def _outputs(node: Any) -> Optional[List[str]]:
    """`output:index` for each output of a node."""
    definition = op_def_registry.get(node.op)
    if definition is None:
        return None
    found: List[str] = []
    for output in definition.output_arg:
        found.extend("{}:{}".format(output.name, i) for i in range(_count(output, node.attr)))
    return found


def _count(output: Any, attributes: Dict[str, Any]) -> int:
    if output.number_attr:
        return int(attributes[output.number_attr].i)
    if output.type_list_attr:
        return len(attributes[output.type_list_attr].list.type)
    return 1
