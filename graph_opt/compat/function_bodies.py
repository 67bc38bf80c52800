"""The bodies of functions as nodes of a graph.

In a FunctionDef, tensors are named `node:output:index`, by the outputs that the ops declare, and
arguments by their names.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from graph_opt.compat.op_definitions import op_definition


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
      None if the function has an op that this process does not know, or reads what it has not.
    """
    definitions = {node.op: op_definition(node.op) for node in function.node_def}
    if None in definitions.values():
        return None
    names = _Names(function, arguments, scope, definitions)
    texts = [text for node in function.node_def for text in node.input]
    if any(names.of(text) is None for text in (*texts, *_returned(function))):
        return None
    return _body(function, names)


def free_scope(scope: str, function: Any, names: AbstractSet[str]) -> str:
    """The scope itself, or one like it in which a graph has none of a function's names.

    Args:
      scope: Name scope for the nodes of the function.
      function: A FunctionDef.
      names: Of the graph's nodes.
    """
    free, number = scope, 0
    while any("{}/{}".format(free, node.name) in names for node in function.node_def):
        number += 1
        free = "{}_{}".format(scope, number)
    return free


def partial_body(
    function: Any, arguments: Sequence[str], scope: str, signatures: Mapping[str, Any]
) -> FunctionBody:
    """The nodes of a function of any file, as far as they make sense.

    An edge is left out if there is nothing at its other end. Of an op that is not known, an output
    is taken for the first one.

    Args:
      function: A FunctionDef.
      arguments: A tensor for each argument, as far as they are known.
      scope: Name scope of the nodes.
      signatures: The OpDefs of functions, which are ops in the graphs that they belong to.
    """
    definitions = {
        node.op: op_definition(node.op) or signatures.get(node.op) for node in function.node_def
    }
    return _body(function, _Names(function, arguments, scope, definitions))


def _body(function: Any, names: _Names) -> FunctionBody:
    nodes = []
    for node in function.node_def:
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = names.node(node.name)
        copy.input[:] = names.of_all(node.input)
        copy.attr.pop("_class", None)
        nodes.append(copy)
    controls = [text[1:] for text in names.of_all("^" + name for name in _controls(function))]
    return FunctionBody(nodes, names.of_all(_returned(function)), controls)


def _returned(function: Any) -> List[str]:
    results = dict(function.ret)
    return [results.get(result.name, "") for result in function.signature.output_arg]


def _controls(function: Any) -> List[str]:
    return list(function.control_ret.values())


class _Names:
    """What a graph calls the tensors of a function."""

    def __init__(
        self,
        function: Any,
        arguments: Sequence[str],
        scope: str,
        definitions: Mapping[str, Optional[Any]],
    ) -> None:
        self._scope = scope
        given = zip(function.signature.input_arg, arguments)
        self._arguments = {argument.name: text for argument, text in given}
        self._outputs = {
            node.name: _first_places(node, definitions[node.op]) for node in function.node_def
        }

    def node(self, name: str) -> str:
        return "{}/{}".format(self._scope, name)

    def of(self, text: str) -> Optional[str]:
        """A tensor, or a control input, as NodeDefs of a graph spell it."""
        if text.startswith("^"):
            argument = self._arguments.get(text[1:])
            if argument is not None:
                return "^" + argument.partition(":")[0]
            return "^" + self.node(text[1:]) if text[1:] in self._outputs else None
        if text in self._arguments:
            return self._arguments[text]
        name, _, output = text.partition(":")
        if name not in self._outputs:
            return None
        output, _, index = output.partition(":")
        place = self._outputs[name].get(output, 0) + (int(index) if index.isdigit() else 0)
        return "{}:{}".format(self.node(name), place)

    def of_all(self, texts: Any) -> List[str]:
        return [found for found in map(self.of, texts) if found is not None]


def _first_places(node: Any, definition: Optional[Any]) -> Dict[str, int]:
    """For each output that an op declares, the number of its first tensor."""
    places: Dict[str, int] = {}
    count = 0
    for output in definition.output_arg if definition is not None else ():
        places[output.name] = count
        count += _count(output, node.attr)
    return places


def _count(output: Any, attributes: Any) -> int:
    name = output.number_attr or output.type_list_attr
    if not name:
        return 1
    if name not in attributes:
        return 0
    return attributes[name].i if output.number_attr else len(attributes[name].list.type)
