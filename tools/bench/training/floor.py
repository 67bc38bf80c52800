"""The two halves of an optimized training graph, each alone: how fast could the whole be at best?

    main alone      the buffer's take is replaced by one batch of remembered tensors
    lookups alone   what fills the buffer is run with no buffer and nothing behind it
    compute alone   what of main is on the worker, with remembered tensors for all that servers send
    products alone  the matrix products of main, on remembered operands, with nothing between them

They are cut from the graph that graph_opt made, so that each half does exactly the work that it
does in the whole: main with its gradients and table updates, the lookups with their input.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.ancestors import ancestors
from tools.bench.workloads.workload import TrainingGraph

PUT = "TensorBufferPut"
TAKE = "TensorBufferTake"
_PREFETCH = b"prefetch"
_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2")


class Half(NamedTuple):
    """One half as a graph of its own.

    Attributes:
      graph: the graph.
      fetches: names of what a step runs: operations, or tensors to be dropped.
      initializers: names of the operations that set the variables.
    """

    graph: tf.Graph
    fetches: List[str]
    initializers: List[str]


def lookups_alone(training: TrainingGraph) -> Half:
    """What the prefetch threads run, with the input read in the same step.

    Args:
      training: a training graph that graph_opt has optimized.

    Raises:
      ValueError: the graph has not exactly one prefetch stage.
    """
    graph_def = graph_opt.running_graph_def(training.graph)
    put = _prefetch_put(graph_def)
    record = list(put.input[: len(put.attr["dtypes"].list.type)])
    sources = _put_inputs_by_take(graph_def, put)
    takes = {"^" + node.name for node in graph_def.node if node.op == TAKE}
    for node in graph_def.node:
        node.input[:] = [sources.get(name, name) for name in node.input if name not in takes]
    fetches = [_tensor_name(sources.get(name, name)) for name in record]
    return Half(_imported(graph_def), fetches, _initializers(training))


def main_alone(training: TrainingGraph, record: Sequence[np.ndarray]) -> Half:
    """The main graph on one batch that never changes.

    Args:
      training: a training graph that graph_opt has optimized.
      record: values of the boundary tensors, as a step of `lookups_alone` returns them.

    Raises:
      ValueError: the graph has not exactly one prefetch stage.
    """
    graph_def = graph_opt.running_graph_def(training.graph)
    put = _prefetch_put(graph_def)
    take = _take_of(graph_def, put)
    remembered = {
        _input_name(take.name, index): f"remembered_{index}" for index in range(len(record))
    }
    for node in graph_def.node:
        node.input[:] = [remembered.get(name, name) for name in node.input]
    for index, value in enumerate(record):
        graph_def.node.extend(_remembered(f"remembered_{index}", value, take.device))
    return Half(_imported(graph_def), [training.train_op.name], _initializers(training))


def compute_alone(main: Half, session: tf.Session) -> Half:
    """What main alone computes on the worker, when servers neither send nor receive anything.

    Args:
      main: main alone, of a graph with parameter servers.
      session: in which it runs; a step of it gives the values to remember.
    """
    sent, received = _crossing(main)
    record = session.run(received)
    graph_def = main.graph.as_graph_def()
    here = tf.GraphDef(versions=graph_def.versions)
    remembered: Dict[str, str] = {}
    for index, (tensor, value) in enumerate(zip(received, record)):
        name = f"received_{index}"
        operation, _, output = tensor.name.rpartition(":")
        remembered[_input_name(operation, int(output))] = name
        here.node.extend(_remembered(name, value, ""))
    names = {operation.name for operation in _run_by(main) if not _on_server(operation)}
    kept = [node for node in graph_def.node if node.name in names]
    for node in kept:
        inputs = [remembered.get(name, name) for name in node.input]
        inputs = [name for name in inputs if not name.startswith("^") or name[1:] in names]
        _add_on_worker(here, node, inputs)
    return Half(_imported(here), [tensor.name for tensor in sent], [])


def products_alone(main: Half, session: tf.Session) -> Half:
    """The matrix products of main alone: what no rewrite of the ops around them can save.

    No product waits for another, as their operands are those of an earlier step.

    Args:
      main: main alone.
      session: in which it runs; a step of it gives the values to remember.
    """
    products = [operation for operation in _run_by(main) if operation.type in _PRODUCTS]
    operands = list({each.name: each for product in products for each in product.inputs}.values())
    graph_def = tf.GraphDef(versions=main.graph.as_graph_def().versions)
    remembered: Dict[str, str] = {}
    for index, (operand, value) in enumerate(zip(operands, session.run(operands))):
        remembered[operand.name] = f"operand_{index}"
        graph_def.node.extend(_remembered(f"operand_{index}", value, ""))
    for product in products:
        inputs = [remembered[operand.name] for operand in product.inputs]
        _add_on_worker(graph_def, product.node_def, inputs)
    return Half(_imported(graph_def), [product.name for product in products], [])


def _add_on_worker(graph_def: Any, node: Any, inputs: Sequence[str]) -> None:
    """Adds a copy of a node that runs here and reads these."""
    copied = graph_def.node.add()
    copied.CopyFrom(node)
    copied.device = ""
    copied.attr.pop("_class", None)
    copied.input[:] = inputs


def _crossing(main: Half) -> Tuple[List[tf.Tensor], List[tf.Tensor]]:
    """What a step of main sends to servers, and what it receives from them."""
    sent: Dict[str, tf.Tensor] = {}
    received: Dict[str, tf.Tensor] = {}
    for operation in _run_by(main):
        for tensor in operation.inputs:
            if _on_server(operation) != _on_server(tensor.op):
                (sent if _on_server(operation) else received)[tensor.name] = tensor
    return list(sent.values()), list(received.values())


def _run_by(half: Half) -> Iterable[tf.Operation]:
    """All operations that a step runs."""
    return ancestors(half.graph.get_operation_by_name(name) for name in half.fetches)


def _on_server(node: Any) -> bool:
    """Whether an operation or a NodeDef is placed on a parameter server."""
    return "/job:ps" in node.device


def _prefetch_put(graph_def: Any) -> Any:
    puts = [
        node
        for node in graph_def.node
        if node.op == PUT and node.attr["_stage_kind"].s == _PREFETCH
    ]
    if len(puts) != 1:
        raise ValueError(f"need a graph with one prefetch stage, this one has {len(puts)}")
    return puts[0]


def _take_of(graph_def: Any, put: Any) -> Any:
    name = put.attr["shared_name"].s
    return next(
        node for node in graph_def.node if node.op == TAKE and node.attr["shared_name"].s == name
    )


def _put_inputs_by_take(graph_def: Any, prefetch_put: Any) -> Dict[str, str]:
    """What the io stage puts, by the names under which its take hands it out."""
    sources: Dict[str, str] = {}
    for put in (node for node in graph_def.node if node.op == PUT):
        if put.name != prefetch_put.name:
            take = _take_of(graph_def, put)
            for index, source in enumerate(put.input):
                sources[_input_name(take.name, index)] = source
    return sources


def _remembered(name: str, value: np.ndarray, device: str) -> List[Any]:
    """A constant that TensorFlow does not fold: anything may be fed in place of its default."""
    constant = tf.NodeDef(name=f"{name}_value", op="Const", device=device)
    data_type = tf.as_dtype(value.dtype).as_datatype_enum
    constant.attr["dtype"].type = data_type
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    holder = tf.NodeDef(name=name, op="PlaceholderWithDefault", device=device)
    holder.input.append(constant.name)
    holder.attr["dtype"].type = data_type
    holder.attr["shape"].shape.CopyFrom(tf.TensorShape(value.shape).as_proto())
    return [constant, holder]


def _imported(graph_def: Any) -> tf.Graph:
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    return graph


def _initializers(training: TrainingGraph) -> List[str]:
    with training.graph.as_default():
        return [variable.initializer.name for variable in tf.global_variables()]


def _input_name(node: str, index: int) -> str:
    """How a NodeDef names output `index` of a node among its inputs."""
    return node if index == 0 else f"{node}:{index}"


def _tensor_name(input_name: str) -> str:
    return input_name if ":" in input_name else f"{input_name}:0"
