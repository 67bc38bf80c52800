"""Writes `graphs/RELEASE.tar.xz`: training graphs as the installed TensorFlow builds them.

Graphs are trained for years, and read by other releases than wrote them. Run from the root of the
checkout, with the environment of the release (`make TF=2.21.0 setup`):

    build/venv-tf2.21.0/bin/python -m tests.releases.write_graphs

Each is a whole GraphDef with gradients and optimizer, as `tf.Graph.as_graph_def` gives it and as
checkpoints have it: with all attributes, also those that other releases do not know. The same
TensorFlow writes the same graphs, but for the names that it draws for hash tables.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from typing import Any, Callable, Dict, NamedTuple, Tuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Releases with Keras 3 build graphs with Keras 2 only.
if importlib.util.find_spec("tf_keras"):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import tensorflow
import tensorflow.compat.v1 as tf

from tests.releases.archives import write_archive
from tests.rules.layer_models import COLUMN_MODELS, LAYER_MODELS
from tests.rules.lookup_models import CORE_MODELS, Model

KINDS: Dict[str, Dict[str, Any]] = {
    "{}{}".format(kind, how): dict(resource=resource, **partitioned)
    for kind, resource in (("ref", False), ("resource", True))
    for how, partitioned in (
        ("", {}),
        ("_mod", {"partitions": 2, "strategy": "mod"}),
        ("_div", {"partitions": 2, "strategy": "div"}),
    )
}
WHOLE = ("ref", "resource")
# Of partitioned tables, each kind and each way to divide them.
PARTITIONED = ("ref_mod", "resource_div")
PARTITIONED_MODELS = (
    "embedding_lookup",
    "embedding_lookup_max_norm",
    "sparse_mean",
    "sparse_weighted_mean",
    "safe_mean",
    "safe_weighted_mean",
)
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.2),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
}


class Variant(NamedTuple):
    """How one graph is built."""

    build: Callable[[Model], None]
    kind: str
    optimizer: str = "adagrad"


def variants() -> Dict[str, Variant]:
    """All graphs, by name."""
    models = {**CORE_MODELS, **COLUMN_MODELS, **LAYER_MODELS}
    listed = [(name, kind) for name in (*CORE_MODELS, *COLUMN_MODELS) for kind in WHOLE]
    listed += [(name, kind) for name in PARTITIONED_MODELS for kind in PARTITIONED]
    listed += [("input_layer", "ref_div"), ("input_layer_shared", "resource_div")]
    listed += [(name, "ref") for name in LAYER_MODELS]
    found = {"{}.{}".format(name, kind): Variant(models[name], kind) for name, kind in listed}
    for optimizer in OPTIMIZERS:
        for kind in WHOLE:
            name = "{}.{}".format(optimizer, kind)
            found[name] = Variant(CORE_MODELS["sparse_mean"], kind, optimizer)
    return {**found, **_of_contrib()}


def _of_contrib() -> Dict[str, Variant]:
    if not hasattr(tensorflow, "contrib"):
        return {}
    from tests.releases.contrib_models import CONTRIB_MODELS

    listed = [(name, kind) for name in CONTRIB_MODELS for kind in WHOLE]
    listed += [("contrib_safe", "resource_mod"), ("contrib_input", "resource_div")]
    return {
        "{}.{}".format(name, kind): Variant(CONTRIB_MODELS[name], kind) for name, kind in listed
    }


def trained(variant: Variant) -> Tuple[bytes, Any]:
    """A training graph, and the facts about its lookups."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        model = Model(tf, **KINDS[variant.kind])
        variant.build(model)
        model.train(OPTIMIZERS[variant.optimizer]())
        facts = [dataclasses.asdict(fact) for fact in model.expected]
        return graph.as_graph_def().SerializeToString(deterministic=True), facts


def main() -> None:
    """Writes the archive."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    graphs = {name: trained(variant) for name, variant in variants().items()}
    write_archive(tf.VERSION, graphs)


if __name__ == "__main__":
    main()
