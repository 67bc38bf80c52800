"""The inputs of signatures that are repeated in all rows of a request, as tensors of the graph."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.repeated_rows.listed_inputs import ListedInput
from graph_opt.passes.repeated_rows.repeated_rows import RequestRows
from graph_opt.rules.parsed_examples import PARSERS
from graph_opt.saved_models.named_nodes import predicting_signatures

_OF_SPARSE = 3  # indices, values and shape


class _Parsed(NamedTuple):
    """A feature of serialized examples: a tensor, or lists of any number of values in each row."""

    name: str
    parser: str
    tensor: Optional[TensorRef]
    listed: Optional[ListedInput] = None


def request_rows(meta_graph: Any, view: GraphView, repeated: Sequence[str]) -> RequestRows:
    """Finds the tensors that have the rows of requests.

    Args:
      meta_graph: A MetaGraphDef with signatures.
      view: Its graph, with static shapes.
      repeated: Inputs of signatures, or features that are parsed from serialized examples.

    Raises:
      tf.errors.InvalidArgumentError: There is no such input or feature, or several tensors are
        called so.
    """
    signatures = [
        _plain_inputs(signature) for signature in predicting_signatures(meta_graph).values()
    ]
    parsed = [feature for parser in view.of_op(*PARSERS) for feature in _features(view, parser)]
    listed = _listed(repeated, signatures, parsed)
    found = {
        name: _tensor_of(name, signatures, parsed)
        for name in dict.fromkeys(repeated)
        if name not in listed
    }
    inputs = [tensor for inputs in signatures for tensor in inputs.values()]
    inputs += [feature.tensor for feature in parsed if feature.tensor is not None]
    varying = [each for each in dict.fromkeys(inputs) if each not in found.values()]
    return RequestRows(
        found,
        tuple(each for each in varying if _has_rows(view, each)),
        tuple(_fetched(meta_graph)),
        tuple(_fed(view, inputs, parsed) for inputs in signatures),
        listed,
        tuple(
            feature.listed
            for feature in parsed
            if feature.listed is not None and feature.listed not in listed.values()
        ),
    )


def _plain_inputs(signature: Any) -> Dict[str, TensorRef]:
    return {
        key: TensorRef.parse(info.name)
        for key, info in sorted(signature.inputs.items())
        if info.WhichOneof("encoding") == "name"
    }


def _tensor_of(
    name: str, signatures: Sequence[Dict[str, TensorRef]], parsed: Sequence[_Parsed]
) -> TensorRef:
    fed = {inputs[name] for inputs in signatures if name in inputs}
    features = [feature for feature in parsed if feature.name == name]
    tensors = fed or {feature.tensor for feature in features if feature.tensor is not None}
    if len(tensors) > 1:
        named = ", ".join(sorted(map(str, tensors)))
        raise _invalid("{!r} is several tensors ({}): repeat one of them".format(name, named))
    if not tensors:
        known = sorted({*(key for inputs in signatures for key in inputs)})
        known += sorted({feature.name for feature in parsed})
        raise _invalid(
            "{!r} is no input of a signature and no feature of its examples: there are {}".format(
                name, ", ".join(known) or "none"
            )
        )
    return tensors.pop()


def _listed(
    repeated: Sequence[str],
    signatures: Sequence[Dict[str, TensorRef]],
    parsed: Sequence[_Parsed],
) -> Dict[str, ListedInput]:
    """The repeated features of any number of values."""
    fed = {name for inputs in signatures for name in inputs}
    found: Dict[str, ListedInput] = {}
    for feature in parsed:
        if feature.listed is not None and feature.name in repeated and feature.name not in fed:
            if feature.name in found:
                raise _invalid("{!r} is parsed several times".format(feature.name))
            found[feature.name] = feature.listed
    return found


def _features(view: GraphView, parser: str) -> Iterator[_Parsed]:
    """What a node parses: names of features are inputs, one each, or vectors of them."""
    keys = _keys(view, parser)
    if keys is None:
        return
    sparse, dense = keys
    serialized = view.inputs(parser)[0]
    for place, name in enumerate(sparse):
        indices, values, shape = (
            TensorRef(parser, part * len(sparse) + place) for part in range(_OF_SPARSE)
        )
        yield _Parsed(name, parser, None, ListedInput(indices, values, shape, serialized))
    for place, name in enumerate(dense):
        yield _Parsed(name, parser, TensorRef(parser, _OF_SPARSE * len(sparse) + place))


def _keys(view: GraphView, parser: str) -> Optional[Tuple[List[str], List[str]]]:
    inputs = view.inputs(parser)
    numbers = [view.attribute(parser, key) for key in ("Nsparse", "Ndense")]
    if view.op(parser) == "ParseExampleV2":
        parts = [inputs[2:3], inputs[3:4]]
    else:
        sizes = [0 if number is None else int(number.i) for number in numbers]
        parts = [inputs[2 : 2 + sizes[0]], inputs[2 + sizes[0] : 2 + sum(sizes)]]
    found: List[List[str]] = []
    for part in parts:
        values = [view.constant(tensor) for tensor in part]
        if any(value is None for value in values):
            return None
        found.append([_text(key) for value in values if value is not None for key in value.flat])
    return found[0], found[1]


def _text(key: Any) -> str:
    return key.decode("utf-8") if isinstance(key, bytes) else str(key)


def _has_rows(view: GraphView, tensor: TensorRef) -> bool:
    shape = view.shape(tensor)
    return bool(shape) and shape is not None and shape[0] is None


def _fetched(meta_graph: Any) -> Iterator[TensorRef]:
    for _, signature in sorted(meta_graph.signature_def.items()):
        for info in signature.outputs.values():
            if info.WhichOneof("encoding") == "name":
                yield TensorRef.parse(info.name)


def _fed(view: GraphView, inputs: Dict[str, TensorRef], parsed: Sequence[_Parsed]) -> frozenset:
    """The tensors that requests of a signature feed, or that are parsed from these."""
    reached = view.descendants([tensor.node for tensor in inputs.values()])
    features = {
        each.tensor for each in parsed if each.tensor is not None and each.parser in reached
    }
    return frozenset({*inputs.values(), *features})


def _invalid(text: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, "repeated: " + text)
