"""Graphs that pages are made of in tests."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List

import numpy as np

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.config.options import session_options
from graph_opt.passes.graph_reports import report_of_lookups
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.report_page.page_content import PageSource
from tests.called_functions import looked_up_twice
from tests.control_flow import control_flow_v2

SCRIPT_NAME = "</script><script>document.title='broken'</script>"
HOSTILE_NAMES = (
    SCRIPT_NAME,
    '"><img src=x onerror="document.title=`broken`">',
    "<!-- <script>",
    "quote'quote\"back`slash\\u003c",
    "line\u2028and\u2029and\nbreak\x00\x1b[31m",
    "right\u202eleft",
    "__proto__",
    "constructor/toString",
    "@STYLE@ @DATA@",
    "x" * 3000 + "/hasOwnProperty",
)


def lookups_config() -> Any:
    """Fuses lookups and runs them ahead, behind a stage that is inferred."""
    config = ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_async_embedding = options.do_group_embedding = True
    ahead = options.async_embedding_options
    ahead.threads_num, ahead.capacity, ahead.infer_io_stage = 1, 2, True
    return config


def trained_model() -> Any:
    """Two lookups of a batch's ids and one of ids that are fed; returns the train op."""
    rows = {"ids": np.arange(64) % 10, "label": np.ones([64], np.float32)}
    dataset = tf.data.Dataset.from_tensor_slices(rows).repeat().batch(8, drop_remainder=True)
    features = tf.data.make_one_shot_iterator(dataset).get_next()
    pooled = []
    for name in ("user", "item"):
        table = tf.get_variable(name + "_table", [10, 4])
        pooled.append(tf.nn.embedding_lookup(table, features["ids"], name=name))
    fed = tf.placeholder_with_default(tf.zeros([2], tf.int64), [None], name="fed")
    extra = tf.nn.embedding_lookup(tf.get_variable("extra_table", [10, 4]), fed, name="extra")
    with tf.name_scope("tower"):
        difference = tf.reduce_sum(tf.concat(pooled, 1), 1) - features["label"]
        loss = tf.add(tf.reduce_mean(tf.square(difference)), tf.reduce_sum(extra), name="loss")
    return tf.train.AdagradOptimizer(0.1).minimize(loss)


def rewritten_source(steps: Any = ()) -> PageSource:
    """The model of the default graph, rewritten."""
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    optimized = optimize_graph_def(graph_def, lookups_config())
    return PageSource("model.pb", optimized.report, graph_def, optimized.graph_def, tuple(steps))


def hostile_graph() -> Any:
    """A chain of nodes whose names, devices and attributes are written to break a page."""
    graph_def = tf.GraphDef()
    last = ""
    for name in HOSTILE_NAMES:
        node = graph_def.node.add(name=name, op="Identity" if last else "Placeholder")
        node.device = "/device:" + name
        node.attr["dtype"].s = name.encode("utf-8")
        node.input.extend([last] if last else [])
        last = name
    return graph_def


def called_graph() -> Any:
    """A function that looks rows up, called twice, and one that it calls."""
    with control_flow_v2(True), tf.Graph().as_default() as graph:
        _, first, second = looked_up_twice()
        tf.reduce_sum(first + second, name="loss")
        return graph.as_graph_def(add_shapes=True)


def called_source() -> PageSource:
    """The page of this graph as it is."""
    graph_def = called_graph()
    return PageSource(
        "called", report_of_lookups(graph_def, session_options(ConfigProto())), graph_def
    )


def hostile_lookups() -> Any:
    """Graphs of real lookups whose tables, nodes, devices and functions have hostile names."""
    graph_def = called_graph()
    names = (
        name for number in range(9) for name in (one + str(number or "") for one in HOSTILE_NAMES)
    )
    nodes = {node.name: next(names) for node in graph_def.node}
    functions = {one.signature.name: next(names) for one in graph_def.library.function}
    for node in graph_def.node:
        node.name = nodes[node.name]
        node.device = "/device:" + node.name
        node.attr["_note"].s = node.name.encode("utf-8")
        node.attr[node.name].s = b"an attribute of this name"
        node.input[:] = [_renamed(text, nodes) for text in node.input]
    called = [graph_def.node, *(one.node_def for one in graph_def.library.function)]
    for node in (node for nodes_of_one in called for node in nodes_of_one):
        if "f" in node.attr:
            node.attr["f"].func.name = functions[node.attr["f"].func.name]
    for function in graph_def.library.function:
        function.signature.name = functions[function.signature.name]
    return graph_def


def _renamed(text: str, names: Dict[str, str]) -> str:
    control = "^" if text.startswith("^") else ""
    name, colon, index = text[len(control) :].partition(":")
    return control + names[name] + colon + index


def content_of(page: str) -> Dict[str, Any]:
    """The data in a page."""
    (block,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page)
    return json.loads(block)


def node_names(graph: Dict[str, Any]) -> List[str]:
    """The names of a page's nodes, put together again from their columns."""
    paths = [""]
    for name, parent in zip(graph["scopeNames"][1:], graph["scopeParents"][1:]):
        paths.append(paths[parent] + "/" + name if parent else name)
    return [
        paths[scope] + ("/" if scope and leaf else "") + leaf
        for scope, leaf in zip(graph["scope"], graph["leaf"])
    ]
