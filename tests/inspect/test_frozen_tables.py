"""The constants that gathers read, and what is told where they are no tables."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.inspect.frozen_tables import frozen_remark, frozen_tables


def test_constants_that_gathers_read_are_tables_of_a_frozen_graph() -> None:
    ids = tf.placeholder(tf.int64, [None])
    for name in ("users", "items"):
        table = tf.constant(1.0, shape=[10, 4], name=name)
        tf.gather(tf.identity(table), ids)
    tf.gather(tf.constant([1.0, 2.0], name="no_table"), ids)
    tf.gather(tf.get_variable("variable", [10, 4]), ids)
    graph_def = tf.get_default_graph().as_graph_def()
    assert frozen_tables(graph_def) == ["users", "items"]
    assert "gathers read rows of constants" in frozen_remark(graph_def)
    assert "(users and 1 more)" in frozen_remark(graph_def)
    assert frozen_remark(tf.GraphDef()) == ""
