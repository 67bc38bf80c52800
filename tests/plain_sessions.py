"""Sessions without Grappler, which takes longer than the few steps that most tests run."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator
from unittest import mock

from tensorflow.core.protobuf import config_pb2

from graph_opt.compat import tf
from graph_opt.compat.c_functions import c_api


def plain_session() -> Any:
    """A session of TensorFlow without Grappler."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


@contextlib.contextmanager
def without_grappler() -> Iterator[None]:
    """Opens sessions in the block without Grappler, unless their config says something of it."""
    stock = c_api.TF_NewSessionOptions

    def options(target: Any = None, config: Any = None) -> Any:
        return stock(target=target, config=_plain(config))

    with mock.patch.object(c_api, "TF_NewSessionOptions", options):
        yield


def _plain(config: Any) -> Any:
    if config is not None and config.graph_options.HasField("rewrite_options"):
        return config
    plain = config_pb2.ConfigProto()
    if config is not None:
        plain.CopyFrom(config)
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    return plain
