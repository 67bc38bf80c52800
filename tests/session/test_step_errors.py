"""What is told from the text of an error, which each release of TensorFlow writes its way."""

from __future__ import annotations

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.compat.step_calls import failed_node, own_message


def test_an_error_names_its_node_and_says_what_the_kernel_said() -> None:
    fed = tf.placeholder(tf.float32, [None])
    with tf.name_scope("outer"):
        checked = tf.check_numerics(fed, "a score", name="checked")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as raised:
        session.run(checked, {fed: [np.nan]})
    assert failed_node(raised.value) == "outer/checked"
    assert own_message(raised.value) == "a score : Tensor had NaN values"


def test_an_error_of_no_node_names_none() -> None:
    assert failed_node(tf.errors.UnknownError(None, None, "no node")) == ""
