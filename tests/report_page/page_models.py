"""Graphs that pages are made of in tests."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List

import numpy as np

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.report_page.page_content import PageSource

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
