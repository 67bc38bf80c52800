"""ConfigProto is used like TensorFlow's, and its bytes survive a round trip through the latter."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.config_descriptor import extended_messages, is_map, is_repeated
from graph_opt.config import (
    ConfigProto,
    GraphOptions,
    OptimizerOptions,
    extend,
    merge,
    messages,
    to_stock,
)
from graph_opt.config.messages import RunOptions
from graph_opt.config.schema import FIELDS, NewField
from tests.example_share import example_share

_INTEGERS = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}


def _scalars(field: Any) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == field.TYPE_BOOL:
        return st.booleans()
    if field.type == field.TYPE_STRING:
        return st.text(max_size=5)
    if field.type == field.TYPE_BYTES:
        return st.binary(max_size=5)
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return st.floats(allow_nan=False, width=32)
    if field.cpp_type == field.CPPTYPE_INT64:
        return _INTEGERS["int64"]
    if field.cpp_type == field.CPPTYPE_UINT64:
        return st.integers(0, 2**64 - 1)
    return _INTEGERS["int32"]


@st.composite
def configs(draw: Any, message: Any = None, depth: int = 4) -> Any:
    """Any message in our ConfigProto's tree, including its stock fields."""
    message = ConfigProto() if message is None else message
    if not message.DESCRIPTOR.fields:
        return message
    fields = draw(
        st.lists(st.sampled_from(list(message.DESCRIPTOR.fields)), max_size=5, unique=True)
    )
    if depth == 4:  # Our own options in most of the examples.
        fields = fields + [message.DESCRIPTOR.fields_by_name["graph_options"]]
    for field in fields:
        _draw_field(draw, message, field, depth)
    return message


def _draw_field(draw: Any, message: Any, field: Any, depth: int) -> None:
    repeated = is_repeated(field)
    if is_map(field):
        if field.name == "device_count":
            message.device_count[draw(st.text(max_size=3))] = draw(_INTEGERS["int32"])
    elif field.message_type is not None and depth > 0:
        for _ in range(draw(st.integers(1, 2)) if repeated else 1):
            below = getattr(message, field.name).add() if repeated else getattr(message, field.name)
            below.SetInParent()
            draw(configs(below, depth - 1))
    elif field.message_type is None and repeated:
        getattr(message, field.name).extend(draw(st.lists(_scalars(field), max_size=3)))
    elif field.message_type is None:
        setattr(message, field.name, draw(_scalars(field)))


PROPERTY = example_share(0.6)


@PROPERTY
@given(configs())
def test_bytes_pass_through_a_stock_config_without_loss(config: Any) -> None:
    stock = tf.ConfigProto.FromString(config.SerializeToString())
    assert ConfigProto.FromString(stock.SerializeToString()) == config
    assert extend(stock) == config


@PROPERTY
@given(configs())
def test_text_is_read_back_as_written(config: Any) -> None:
    text = text_format.MessageToString(config)
    assert text_format.Parse(text, ConfigProto()) == config


@PROPERTY
@given(configs())
def test_to_stock_is_undone_by_extend(config: Any) -> None:
    if len(config.session_inter_op_thread_pool) > 1:
        config.ClearField("session_inter_op_thread_pool")
    stock = to_stock(config)
    assert type(stock) is tf.ConfigProto
    assert extend(stock) == config
    assert to_stock(extend(stock)) == stock
    assert to_stock(stock) == stock


@PROPERTY
@given(configs())
def test_merging_a_config_over_an_empty_one_or_itself_changes_nothing(config: Any) -> None:
    assert merge(None, config) == config
    assert merge(config, None) == config
    assert merge(config, config) == config


@PROPERTY
@given(configs())
def test_pickle_and_deepcopy_keep_everything(config: Any) -> None:
    assert pickle.loads(pickle.dumps(config)) == config
    assert copy.deepcopy(config) == config


def test_deeprec_syntax_sets_every_added_field() -> None:
    for field in FIELDS:
        holder = {
            "OptimizerOptions": lambda c: c.graph_options.optimizer_options,
            "AsyncEmbeddingOptions": lambda c: (
                c.graph_options.optimizer_options.async_embedding_options
            ),
            "StalenessLimit": lambda c: (
                c.graph_options.optimizer_options.async_embedding_options.staleness_limit.add()
            ),
            "GroupEmbeddingOptions": lambda c: (
                c.graph_options.optimizer_options.group_embedding_options
            ),
            "ShardTablesOptions": lambda c: c.graph_options.optimizer_options.shard_tables_options,
            "SmartStageOptions": lambda c: c.graph_options.optimizer_options.smart_stage_options,
            "SessionStageSubgraphThreadPoolOptions": lambda c: (
                c.session_stage_subgraph_thread_pool.add()
            ),
            "ConfigProto": lambda c: c,
            "RunOptions": lambda c: RunOptions(),
        }[field.message](ConfigProto())
        number = type(holder).DESCRIPTOR.fields_by_name[field.name].number
        assert number == field.number, field
        if field.repeated:
            assert len(getattr(holder, field.name)) == 0
        elif field.kind in ("bool", "int32", "string"):
            value = {"bool": True, "int32": 3, "string": "pool"}[field.kind]
            assert not holder.HasField(field.name)
            setattr(holder, field.name, value)
            assert getattr(holder, field.name) == value


def test_stock_messages_fit_into_the_extended_config() -> None:
    rewrite_options = type(tf.ConfigProto().graph_options.rewrite_options)(
        disable_meta_optimizer=True
    )
    config = ConfigProto(
        allow_soft_placement=True,
        device_count={"CPU": 2},
        gpu_options=tf.GPUOptions(allow_growth=True),
        cluster_def=tf.train.ClusterSpec({"ps": ["localhost:1"]}).as_cluster_def(),
        graph_options=GraphOptions(optimizer_options=OptimizerOptions(do_smart_stage=True)),
    )
    config.graph_options.rewrite_options.CopyFrom(rewrite_options)
    stock = to_stock(config)
    assert stock.gpu_options.allow_growth
    assert stock.cluster_def.job[0].tasks[0] == "localhost:1"
    assert stock.graph_options.rewrite_options.disable_meta_optimizer


def test_enum_constants_are_attributes_of_the_classes() -> None:
    for name in ("L0", "L1", "ON_1", "ON_2", "OFF", "DEFAULT"):
        assert getattr(OptimizerOptions, name) == getattr(tf.OptimizerOptions, name)
    options = OptimizerOptions(opt_level=tf.OptimizerOptions.L0)
    assert options.opt_level == OptimizerOptions.L0


def test_field_7_is_tensorflows_and_op_fusion_never_uses_it() -> None:
    options = OptimizerOptions(do_op_fusion=True)
    assert options.SerializeToString() == bytes([0xF8, 0x3E, 0x01])  # 1007: true
    stock = tf.OptimizerOptions.FromString(options.SerializeToString())
    assert not getattr(stock, "cpu_global_jit", False)  # TensorFlow 1 has no such field.


def test_a_field_that_collides_with_tensorflows_is_an_error_with_both_names() -> None:
    with pytest.raises(ValueError, match=r"'opt_level' = 3.*'mine' = 3"):
        extended_messages([NewField("OptimizerOptions", "mine", 3, "bool")], __name__)


def test_importing_the_config_room_patches_nothing() -> None:
    assert tf.ConfigProto is not ConfigProto
    assert not hasattr(tf.OptimizerOptions, "do_async_embedding")
    assert ConfigProto.DESCRIPTOR.full_name == "graph_opt.ConfigProto"


def test_help_describes_the_package_and_its_messages() -> None:
    assert "do_async_embedding" in pydoc.plain(pydoc.render_doc(graph_opt))
    assert "MergeFrom" in pydoc.plain(pydoc.render_doc(graph_opt.ConfigProto))
    assert graph_opt.ConfigProto.Experimental.__module__ == "graph_opt.config.messages"


def test_signatures_and_completion_name_the_options() -> None:
    arguments = inspect.signature(OptimizerOptions).parameters
    assert arguments["do_group_embedding"].annotation == "bool"
    assert arguments["async_embedding_options"].annotation == "AsyncEmbeddingOptions"
    assert arguments["global_jit_level"].annotation == "int"
    pools = inspect.signature(ConfigProto).parameters["session_stage_subgraph_thread_pool"]
    assert pools.annotation == "Sequence[SessionStageSubgraphThreadPoolOptions]"
    options = OptimizerOptions().async_embedding_options
    assert {"capacity", "threads_num", "CopyFrom", "__class__"} <= set(dir(options))


def test_all_messages_can_be_imported_by_name() -> None:
    options = messages.AsyncEmbeddingOptions(capacity=2)
    assert pickle.loads(pickle.dumps(options)) == options
