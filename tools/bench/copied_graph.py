"""GraphDefs of any size in the shape of a recommendation model's training graph.

TensorFlow builds one block, forward, backward and optimizer; larger graphs are copies of it that
share the iterator, and a chain of dense nodes that runs through all of them:

    iterator ─┬─► lookups of block 0 ─► MLP ─► loss ─► backward ─► apply
              │                          └─► dense chain ─┐
              ├─► lookups of block 1 ─► MLP ─► loss ...   │
              │                          └─► dense chain ◄┘─┐
              ┆                                             ▼

They are valid as graphs and not meant to run. Building them with TensorFlow itself would take
minutes for 100,000 nodes.
"""

from __future__ import annotations

from typing import Any, FrozenSet, List, NamedTuple

import tensorflow.compat.v1 as tf

from tools.bench.ancestors import ancestors

ROWS = 100000
DIMENSION = 16
HIDDEN = (64, 32)
_ITERATOR_OPS = ("IteratorV2", "OneShotIterator", "IteratorGetNext")
_LIST_ATTRIBUTES = ("output_types", "output_shapes", "_output_shapes")
_PLACE = "loc:@"  # before the name of the node that another is to be placed with
_NAME_ATTRIBUTES = ("shared_name", "container")
_CHAIN_OPS = ("Relu", "Tanh", "AddV2")
_CHAIN_SHARE = 0.3  # of the nodes of a graph that has more than one block


class Block(NamedTuple):
    """One model as TensorFlow builds it.

    Attributes:
        graph_def: its nodes, with shapes.
        shared: names of the nodes that all copies have in common.
        source: name of the node that hands out the batches.
        outputs: how many outputs it has.
        dense: name of the [B, units] node that the dense chain goes on from.
        lookups: embedding lookups in it.
    """

    graph_def: Any
    shared: FrozenSet[str]
    source: str
    outputs: int
    dense: str
    lookups: int


def copied_graph(block: Block, nodes: int) -> Any:
    """A GraphDef of `nodes` nodes, or of one block where that has more.

    Example:
        >>> graph_def = copied_graph(lookup_block(), 100000)
    """
    own = len(block.graph_def.node) - len(block.shared)
    copies = copies_for(block, nodes)
    graph_def = tf.GraphDef()
    graph_def.versions.CopyFrom(block.graph_def.versions)
    graph_def.library.CopyFrom(block.graph_def.library)
    for node in block.graph_def.node:
        if node.name in block.shared:
            _widen(graph_def.node.add(), node, copies)
    chained = max(0, nodes - len(block.shared) - copies * own)
    previous = ""
    for number in range(copies):
        prefix = "block_{}/".format(number)
        for node in block.graph_def.node:
            if node.name not in block.shared:
                _copy(graph_def.node.add(), node, block, prefix, number)
        length = chained // copies + (1 if number < chained % copies else 0)
        previous = _add_chain(graph_def, prefix, prefix + block.dense, previous, length)
    return graph_def


def copies_for(block: Block, nodes: int) -> int:
    """Blocks in a graph of `nodes` nodes."""
    own = len(block.graph_def.node) - len(block.shared)
    return max(1, int((1.0 - _CHAIN_SHARE) * nodes) // own)


def lookup_block() -> Block:
    """A model with a lookup of every kind that recommendation models are made of."""
    with tf.Graph().as_default() as graph:
        iterator = tf.data.make_initializable_iterator(_dataset())
        features, labels = iterator.get_next()
        vectors = _lookups(features)
        with tf.name_scope("mlp"):
            hidden = tf.concat(vectors, axis=1)
            for units in HIDDEN:
                hidden = _dense(hidden, units)
            logits = _dense(hidden, 1)
        loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), name="loss"
        )
        tf.train.AdagradOptimizer(0.05).minimize(loss, name="train")
        graph_def = graph.as_graph_def(add_shapes=True)
        source = next(op for op in graph.get_operations() if op.type == "IteratorGetNext")
        shared = frozenset(each.name for each in ancestors([source, iterator.initializer]))
    return Block(graph_def, shared, source.name, len(source.outputs), hidden.op.name, len(vectors))


def _dataset() -> tf.data.Dataset:
    ids = tf.data.Dataset.range(1 << 20).batch(512)
    return ids.map(
        lambda row: (
            {
                "single": row % ROWS,
                "several": tf.sparse.from_dense(row[:, tf.newaxis] % ROWS),
                "safe": tf.sparse.from_dense(row[:, tf.newaxis] % ROWS),
                "weighted": tf.sparse.from_dense(row[:, tf.newaxis] % ROWS),
                "weights": tf.sparse.from_dense(tf.cast(row[:, tf.newaxis] % 7 + 1, tf.float32)),
                "split": tf.sparse.from_dense(row[:, tf.newaxis] % ROWS),
                "column": tf.as_string(row[:, tf.newaxis]),
            },
            tf.cast(row[:, tf.newaxis] % 2, tf.float32),
        )
    )


def _lookups(features: Any) -> List[tf.Tensor]:
    column = tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_hash_bucket("column", ROWS), DIMENSION
    )
    several = features["several"]
    return [
        tf.nn.embedding_lookup(_table("single", resource=False), features["single"]),
        tf.nn.embedding_lookup_sparse(
            _table("several", resource=True), several, None, combiner="mean"
        ),
        tf.nn.safe_embedding_lookup_sparse(
            _table("safe", resource=False), features["safe"], combiner="sum"
        ),
        tf.nn.embedding_lookup_sparse(
            _table("weighted", resource=True),
            features["weighted"],
            features["weights"],
            combiner="sqrtn",
        ),
        tf.nn.embedding_lookup_sparse(
            _table("split", resource=False, shards=2), features["split"], None, combiner="sum"
        ),
        tf.feature_column.input_layer({"column": features["column"]}, [column]),
    ]


def _table(name: str, resource: bool, shards: int = 1) -> Any:
    return tf.get_variable(
        "table_" + name,
        [ROWS, DIMENSION],
        use_resource=resource,
        partitioner=tf.fixed_size_partitioner(shards) if shards > 1 else None,
    )


def _dense(inputs: tf.Tensor, units: int) -> tf.Tensor:
    with tf.variable_scope(None, default_name="dense"):
        kernel = tf.get_variable("kernel", [int(inputs.shape[1]), units])
        bias = tf.get_variable("bias", [units])
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(inputs, kernel), bias))


def _widen(target: Any, node: Any, copies: int) -> None:
    """Copies a shared node; an iterator hands out the features of all blocks."""
    target.CopyFrom(node)
    if node.op not in _ITERATOR_OPS:
        return
    for key in _LIST_ATTRIBUTES:
        listed = node.attr[key].list
        if len(listed.type) > 1 or len(listed.shape) > 1:
            del target.attr[key].list.type[:]
            del target.attr[key].list.shape[:]
            for _ in range(copies):
                target.attr[key].list.MergeFrom(listed)


def _copy(target: Any, node: Any, block: Block, prefix: str, number: int) -> None:
    target.CopyFrom(node)
    target.name = prefix + node.name
    del target.input[:]
    target.input.extend(_input(text, block, prefix, number) for text in node.input)
    if "_class" in node.attr:
        places = [place.decode()[len(_PLACE) :] for place in node.attr["_class"].list.s]
        renamed = [place if place in block.shared else prefix + place for place in places]
        del target.attr["_class"].list.s[:]
        target.attr["_class"].list.s.extend((_PLACE + place).encode() for place in renamed)
    for key in _NAME_ATTRIBUTES:
        if key in node.attr and node.attr[key].s:
            target.attr[key].s = prefix.encode() + node.attr[key].s


def _input(text: str, block: Block, prefix: str, number: int) -> str:
    control = "^" if text.startswith("^") else ""
    name, _, index = text[len(control) :].partition(":")
    if name not in block.shared:
        return control + prefix + text[len(control) :]
    if name != block.source or control or not number:
        return text
    return "{}:{}".format(name, number * block.outputs + int(index or 0))


def _add_chain(graph_def: Any, prefix: str, start: str, previous: str, length: int) -> str:
    """Adds `length` dense nodes behind `start`; every third adds what earlier blocks came to."""
    name = start
    for number in range(length):
        kind = _CHAIN_OPS[number % len(_CHAIN_OPS)]
        node = graph_def.node.add(name="{}chain/node_{}".format(prefix, number), op=kind)
        node.input.append(name)
        if kind == "AddV2":
            node.input.append(previous or start)
        node.attr["T"].type = tf.float32.as_datatype_enum
        shape = node.attr["_output_shapes"].list.shape.add()
        shape.dim.add(size=-1)
        shape.dim.add(size=HIDDEN[-1])
        name = node.name
    return name
