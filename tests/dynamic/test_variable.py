"""Dynamic tables as variables of a graph: what TensorFlow's functions make of them."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.dynamic.options import Bank, CounterAdmission, DynamicTableOptions
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable, PartOf
from graph_opt.ops.dynamic_table import BY_KEY_1000
from graph_opt.sharding.initializers import Constant

FROM_ONE = DynamicTableOptions(Constant(1.0))


def table_of(width: int = 4, **options: Any) -> DynamicTableVariable:
    return DynamicTableVariable("table", width, FROM_ONE._replace(**options))


def ids_of(*ids: int) -> tf.SparseTensor:
    indices = [[row, 0] for row in range(len(ids))]
    return tf.SparseTensor(indices, tf.constant(ids, tf.int64), [len(ids), 1])


def test_a_table_is_a_variable_to_tensorflow() -> None:
    table = table_of()
    slot = table.add_slot("Adagrad", 0.1)
    assert table.add_slot("Adagrad") is slot
    assert tf.global_variables() == [table, slot]
    assert tf.trainable_variables() == [table]
    assert (table.op.type, table.op.name) == ("VarHandleOp", "table")
    assert (slot.op.type, slot.op.name) == ("VarHandleOp", "table/Adagrad")
    assert table.initializer.type == "DynamicTableInitialize"
    assert slot.initializer.colocation_groups() == [b"loc:@table"]


@pytest.mark.parametrize("parts", [1, 3])
def test_stock_lookups_read_rows_and_have_gradients_by_key(parts: int) -> None:
    made = [
        DynamicTableVariable(
            "table/part_{}".format(number),
            4,
            FROM_ONE,
            part=PartOf("table", number, parts, BY_KEY_1000),
        )
        for number in range(parts)
    ]
    table = PartitionedDynamicTable(made) if parts > 1 else made[0]
    looked_up = [
        tf.nn.embedding_lookup(table, tf.constant([[1], [2]], tf.int64))[:, 0],
        tf.nn.embedding_lookup_sparse(table, ids_of(1, 2), None, combiner="sum"),
        tf.nn.safe_embedding_lookup_sparse(table, ids_of(1, -2), combiner="mean"),
        tf.gather(table, tf.constant([1, 2])),
    ]
    assert all(rows.shape.as_list()[-1] == 4 for rows in looked_up)
    gradients = tf.gradients(tf.add_n(looked_up), table.parts)
    assert all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)


def test_lookups_of_unique_keys_count_their_occurrences() -> None:
    admitting = table_of(admission=CounterAdmission(3))
    pooled = tf.nn.embedding_lookup_sparse(admitting, ids_of(7, 7), None)
    lookups = [op for op in pooled.graph.get_operations() if op.type == "DynamicTableLookup"]
    assert [op.inputs[2].op.type for op in lookups] == ["UniqueWithCounts"]


def test_a_table_has_no_value_of_its_own() -> None:
    table = table_of()
    with pytest.raises(NotImplementedError, match="'table' cannot be converted to a tensor"):
        tf.convert_to_tensor(table)
    with pytest.raises(NotImplementedError, match="'table' has no assign"):
        table.assign(tf.zeros([3, 4]))
    with pytest.raises(TypeError, match=r"ids of .* 'table' are float32"):
        tf.nn.embedding_lookup(table, tf.constant([1.0]))
    with pytest.raises(ValueError, match="needs a bank"):
        table_of(initial=Bank(8))


def test_an_exported_graph_can_be_imported() -> None:
    table = table_of()
    tf.nn.embedding_lookup(table, [1])
    exported = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(exported)
        assert [variable.op.name for variable in tf.global_variables()] == ["table"]


def test_moving_averages_refuse_tables_and_take_the_other_variables() -> None:
    table, dense = table_of(), tf.get_variable("dense", [2])
    average = tf.train.ExponentialMovingAverage(0.9)
    with pytest.raises(ValueError, match="'ExponentialMovingAverage' cannot average 'table': "):
        average.apply()
    others = [one for one in tf.trainable_variables() if one.name not in ["table:0"]]
    assert others == [dense] and table not in others
    average.apply(others)
    assert average.average(dense) is not None
