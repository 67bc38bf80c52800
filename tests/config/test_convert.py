"""Stock and extended configs, thread pools, and configs that override others."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.config import ConfigProto, extend, merge, to_stock


def _parse(text: str) -> Any:
    return text_format.Parse(text, ConfigProto())


def _async(text: str) -> Any:
    return _parse("graph_options {{ optimizer_options {{ {} }} }}".format(text))


def test_extend_copies_and_does_not_change_its_argument() -> None:
    config = _async("do_async_embedding: true")
    extended = extend(config)
    extended.allow_soft_placement = True
    assert not config.allow_soft_placement
    assert extend(None) == ConfigProto()


@pytest.mark.parametrize("wrong", [{}, "config.pbtxt", 3, tf.GPUOptions()])
def test_extend_refuses_what_is_not_a_config(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a graph_opt.ConfigProto, a tf.ConfigProto"):
        extend(wrong)


def test_added_options_survive_in_a_stock_config_that_the_user_edits() -> None:
    stock = to_stock(_async("do_async_embedding: true async_embedding_options { threads_num: 2 }"))
    stock.allow_soft_placement = True
    options = extend(stock).graph_options.optimizer_options
    assert options.do_async_embedding
    assert options.async_embedding_options.threads_num == 2


POOLS = """
session_stage_subgraph_thread_pool { inter_op_threads_num: 2 }
session_stage_subgraph_thread_pool { inter_op_threads_num: 1 global_name: "lookups" }
"""


def test_stage_pools_follow_the_main_pool() -> None:
    pools = to_stock(_parse(POOLS)).session_inter_op_thread_pool
    assert [(pool.num_threads, pool.global_name) for pool in pools] == [
        (0, ""),
        (2, ""),
        (1, "lookups"),
    ]
    own = _parse(POOLS + "session_inter_op_thread_pool { num_threads: 7 }")
    assert [pool.num_threads for pool in to_stock(own).session_inter_op_thread_pool] == [7, 2, 1]


def test_stage_pools_do_not_mix_with_several_stock_pools() -> None:
    config = _parse(POOLS + "session_inter_op_thread_pool {} session_inter_op_thread_pool {}")
    with pytest.raises(tf.errors.InvalidArgumentError, match="keep at most one"):
        to_stock(config)


def test_a_step_runs_in_the_pool_of_its_number() -> None:
    with tf.Graph().as_default(), tf.Session(config=to_stock(_parse(POOLS))) as session:
        answer = tf.constant(1) + 1
        for number in range(3):
            assert session.run(answer, options=tf.RunOptions(inter_op_thread_pool=number)) == 2
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(answer, options=tf.RunOptions(inter_op_thread_pool=3))


def test_a_session_on_a_server_gets_no_pools_and_runs() -> None:
    server = tf.train.Server.create_local_server()
    stock = to_stock(_parse(POOLS), target=server.target)
    assert not stock.session_inter_op_thread_pool
    assert extend(stock) == _parse(POOLS)
    with tf.Graph().as_default(), tf.Session(server.target, config=stock) as session:
        assert session.run(tf.constant(3)) == 3


def test_each_session_on_a_server_gets_a_name() -> None:
    config = ConfigProto()
    config.experimental.session_metadata.name = "of the user"
    for given in (config, ConfigProto()):
        stock = to_stock(given, target="grpc://host:1")
        again = to_stock(stock, target="grpc://host:1")
        names = [one.experimental.session_metadata.name for one in (stock, again, to_stock(given))]
        assert len(set(names)) == 3
        assert extend(stock) == extend(again) == given


def test_override_wins_field_by_field() -> None:
    base = _async("do_async_embedding: true async_embedding_options { threads_num: 1 capacity: 4 }")
    base.allow_soft_placement = True
    override = _async("async_embedding_options { threads_num: 3 unordered: false }")
    merged = merge(base, override)
    options = merged.graph_options.optimizer_options
    assert merged.allow_soft_placement and options.do_async_embedding
    assert options.async_embedding_options.threads_num == 3
    assert options.async_embedding_options.capacity == 4


def test_an_added_option_can_be_switched_off() -> None:
    merged = merge(_async("do_async_embedding: true"), _async("do_async_embedding: false"))
    assert not merged.graph_options.optimizer_options.do_async_embedding


def test_lists_are_replaced_and_maps_joined() -> None:
    base = _parse(POOLS + 'device_count { key: "CPU" value: 1 } device_filters: "/job:ps"')
    override = _parse(
        'session_stage_subgraph_thread_pool { inter_op_threads_num: 9 } device_filters: "/job:w"'
        'device_count { key: "GPU" value: 0 }'
    )
    merged = merge(base, override)
    assert [pool.inter_op_threads_num for pool in merged.session_stage_subgraph_thread_pool] == [9]
    assert list(merged.device_filters) == ["/job:w"]
    assert dict(merged.device_count) == {"CPU": 1, "GPU": 0}
    assert merge(base, ConfigProto()) == base
