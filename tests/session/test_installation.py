"""`install` puts names where TF1 code looks for them; `uninstall` leaves nothing behind."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pytest
import tensorflow as stock

import graph_opt
from graph_opt.compat import legacy_names, tf
from tests.forked_programs import run_forked
from tests.quick_cases import slow_but
from tests.release_features import needs_estimators
from tests.repository_checks import attributes_of_loaded_modules, changes_between
from tests.session.small_model import (
    SmallModel,
    async_config,
    report_on,
    row_batches,
    run_to_end,
    small_model,
    stock_losses,
)

STOCK_CONFIG = tf.ConfigProto
STOCK_GRAPH_OPTIONS = tf.GraphOptions
V1_NAMES = (
    "ConfigProto GraphOptions OptimizerOptions Session InteractiveSession staged prefetch_join "
    "make_prefetch_hook async_embedding_mark_node"
).split()
TRAIN_NAMES = (
    "MonitoredTrainingSession ChiefSessionCreator WorkerSessionCreator MonitoredSession "
    "SingularMonitoredSession Supervisor"
).split()
OTHER_NAMES = ["group_embedding_lookup_sparse", "group_embedding_column_scope"]
SUBMODULES = ("train", "nn", "feature_column")


@pytest.fixture(autouse=True)
def nothing_installed(threads_left_behind: Callable[[], List[str]]) -> Iterator[None]:
    yield
    graph_opt.uninstall()


def state_of_tensorflow() -> Dict[str, Dict[str, int]]:
    """Identities of all attributes, and the names that `import *` of tensorflow.compat.v1 gives."""
    state = attributes_of_loaded_modules("tensorflow")
    submodules = [m for name in SUBMODULES for m in legacy_names.v1_submodules(name)]
    for module in legacy_names.v1_modules() + submodules:
        names = getattr(module, "__all__", ())
        state[module.__name__ + "/names"] = dict.fromkeys(names, len(names))
    return state


def test_uninstall_restores_every_attribute() -> None:
    if hasattr(tf, "estimator"):
        assert tf.estimator.Estimator, "which TensorFlow loads when it is first asked for"
    before = state_of_tensorflow()
    graph_opt.install(async_config())
    changed = changes_between(before, state_of_tensorflow())
    assert {name.rpartition(".")[2] for name in changed} >= set(
        V1_NAMES + TRAIN_NAMES + OTHER_NAMES
    )
    graph_opt.uninstall()
    assert changes_between(before, state_of_tensorflow()) == []
    graph_opt.uninstall()
    assert changes_between(before, state_of_tensorflow()) == []


def test_everything_is_restored_after_an_error_in_the_block() -> None:
    before = state_of_tensorflow()
    with pytest.raises(ZeroDivisionError), graph_opt.install():
        raise ZeroDivisionError
    assert changes_between(before, state_of_tensorflow()) == []


def test_names_are_found_in_every_spelling_of_the_v1_api() -> None:
    with graph_opt.install():
        for module in (tf, tf.compat.v1):
            assert module.Session is graph_opt.Session
            assert module.staged is graph_opt.staged
            assert module.make_prefetch_hook is graph_opt.make_prefetch_hook
            assert module.async_embedding_mark_node is graph_opt.async_embedding_mark_node
            assert module.train.ChiefSessionCreator is graph_opt.train.ChiefSessionCreator
            lookup = module.nn.group_embedding_lookup_sparse
            assert lookup is graph_opt.group_embedding_lookup_sparse
            scope = module.feature_column.group_embedding_column_scope
            assert scope is graph_opt.group_embedding_column_scope
        assert stock.EmbeddingVariableOption is graph_opt.EmbeddingVariableOption
        assert stock.train.AdamAsyncOptimizer is graph_opt.train.AdamAsyncOptimizer
        for part in ("feature_column.embedding_column", "nn.group_embedding_lookup"):
            attribute = operator.attrgetter(part)
            assert attribute(stock) is attribute(tf)
        # TensorFlow 2 has no such name, or another function: scripts ask by these which it is.
        assert not hasattr(stock, "Session")
        assert stock.nn.embedding_lookup is not tf.nn.embedding_lookup
    assert not hasattr(tf, "staged")


def test_a_second_install_is_the_first_or_an_error() -> None:
    with graph_opt.install(async_config()):
        with graph_opt.install(async_config()):
            pass
        assert tf.Session is graph_opt.Session
        with pytest.raises(tf.errors.FailedPreconditionError, match="already installed"):
            graph_opt.install(async_config(threads=2))
        with pytest.raises(tf.errors.FailedPreconditionError, match="infer_io_stage"):
            graph_opt.install(async_config(), infer_io_stage=False)
    assert tf.Session is not graph_opt.Session


def test_wrong_options_leave_nothing_installed() -> None:
    config = async_config()
    config.graph_options.optimizer_options.async_embedding_options.capacity = -2
    before = state_of_tensorflow()
    with pytest.raises(tf.errors.InvalidArgumentError, match="capacity is -2"):
        graph_opt.install(config)
    assert changes_between(before, state_of_tensorflow()) == []


def script_in_deeprecs_words() -> Any:
    config = tf.ConfigProto(
        gpu_options=tf.GPUOptions(allow_growth=True),
        graph_options=tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=0)),
        allow_soft_placement=True,
    )
    config.graph_options.optimizer_options.do_async_embedding = True
    options = config.graph_options.optimizer_options.async_embedding_options
    options.threads_num = 2
    options.capacity = 4
    return config


def test_a_script_written_for_deeprec_runs_unchanged() -> None:
    expected = stock_losses()
    with graph_opt.install():
        model = small_model(capacity=1)
        initializer = model.iterator.initializer
        scaffold = tf.train.Scaffold(
            local_init_op=tf.group(tf.train.Scaffold.default_local_init_op(), initializer)
        )
        losses = []
        with tf.train.MonitoredTrainingSession(
            config=script_in_deeprecs_words(), scaffold=scaffold, hooks=[tf.make_prefetch_hook()]
        ) as session:
            while not session.should_stop():
                losses.append(session.run([model.loss, model.train_op])[0])
        assert report_on(model.loss.graph).stages != ()
    np.testing.assert_array_equal(losses, expected)


def losses_of_script(model: SmallModel, config: Any) -> List[float]:
    with tf.Session(config=config) as session:
        session.run([tf.global_variables_initializer(), model.iterator.initializer])
        return [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]


@pytest.mark.parametrize("stock", slow_but([True, False], False))
def test_the_installed_config_overrides_the_scripts_own(stock: bool) -> None:
    expected = stock_losses()
    with graph_opt.install(async_config(), infer_io_stage=True):
        model = small_model()
        config = STOCK_CONFIG(allow_soft_placement=True) if stock else None
        np.testing.assert_array_equal(losses_of_script(model, config), expected)
        assert len(report_on(model.loss.graph).moved) == 2


def test_infer_io_stage_can_be_taken_from_a_config_that_has_it() -> None:
    with graph_opt.install(async_config(), infer_io_stage=False):
        model = small_model()
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"graph_opt\.staged"):
            losses_of_script(model, None)


def test_configs_made_before_and_after_are_configs() -> None:
    with graph_opt.install():
        ours = tf.ConfigProto()
        assert isinstance(ours, graph_opt.ConfigProto)
        assert isinstance(ours, tf.ConfigProto)
        assert isinstance(STOCK_CONFIG(), tf.ConfigProto)
        assert not isinstance(tf.GPUOptions(), tf.ConfigProto)
        assert tf.ConfigProto.FromString(b"") == ours
        assert tf.OptimizerOptions.L0 == -1
        mixed = tf.ConfigProto(graph_options=STOCK_GRAPH_OPTIONS(infer_shapes=True))
        assert mixed.graph_options.infer_shapes


def test_tensorflows_own_sessions_and_servers_accept_our_config() -> None:
    with graph_opt.install():
        config = script_in_deeprecs_words()
        config.session_stage_subgraph_thread_pool.add(inter_op_threads_num=2)
        server = tf.train.Server.create_local_server(config=config)
        assert isinstance(server, tf.train.Server)
        one = tf.constant(1)
        manager = tf.train.SessionManager()
        with manager.prepare_session("", init_op=tf.no_op(), config=config) as session:
            assert session.run(one) == 1
        with tf.Session(server.target, config=config) as session:
            assert session.run(one) == 1


def test_sessions_opened_while_installed_live_on() -> None:
    with graph_opt.install(async_config()):
        model = small_model()
        session = tf.Session()
        session.run([tf.global_variables_initializer(), model.iterator.initializer])
    with session:
        rows = run_to_end(session, model.features["row"])
    assert [list(row) for row in rows] == row_batches()


def test_supervisors_prefetch_as_the_installed_config_says(tmp_path: Any) -> None:
    expected = stock_losses()
    with graph_opt.install(async_config(), infer_io_stage=True):
        model = small_model()
        initializer = tf.group(tf.local_variables_initializer(), model.iterator.initializer)
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), local_init_op=initializer)
        losses = []
        with supervisor.managed_session() as session:
            while not supervisor.should_stop():
                losses.append(session.run([model.loss, model.train_op])[0])
    assert len(report_on(model.loss.graph).moved) == 2
    np.testing.assert_array_equal(losses, expected)


def test_an_exported_model_does_not_train_and_keeps_its_graph(tmp_path: Any) -> None:
    with graph_opt.install(async_config()):
        ids = tf.placeholder(tf.int64, [None])
        rows = tf.nn.embedding_lookup(tf.get_variable("table", [4, 2], use_resource=False), ids)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(
                session, str(tmp_path / "model"), {"ids": ids}, {"rows": rows}
            )
    assert report_on(rows.graph).stages == ()


def test_legacy_group_lookups_run_unchanged() -> None:
    """Both argument orders, and a column scope, using TensorFlow's names only."""
    with graph_opt.install(), tf.Graph().as_default():
        tables = [tf.get_variable("t{}".format(i), [7, 3]) for i in range(2)]
        ids = [tf.sparse.from_dense([[1, 2], [3, 0]]), tf.sparse.from_dense([[4, 0], [5, 6]])]
        grouped = tf.nn.group_embedding_lookup_sparse(tables, ids, "mean", "mod", None, "g")
        older = tf.nn.group_embedding_lookup_sparse(tables, ids, ["mean", "mean"], None, "mod")
        alone = [
            tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="mean")
            for table, sparse in zip(tables, ids)
        ]
        with tf.feature_column.group_embedding_column_scope(name="columns"):
            column = tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_identity("x", 9), 4
            )
        joined = tf.feature_column.input_layer({"x": ids[0]}, [column])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            results = session.run([grouped, older, alone, joined])
    for one, two, three in zip(*results[:3]):
        np.testing.assert_array_equal(one, three)
        np.testing.assert_array_equal(two, three)
    assert results[3].shape == (2, 4)


@needs_estimators
def test_estimators_are_imported_by_scripts_that_use_them(tmp_path: Path) -> None:
    # The import makes TensorFlow's hooks warn that they are deprecated.
    program = (
        "import sys, graph_opt, tensorflow.compat.v1 as tf\n"
        "graph_opt.install()\n"
        "print('tensorflow_estimator.python.estimator.estimator' in sys.modules)\n"
        "changed = tf.estimator.Estimator.export_saved_model\n"
        "graph_opt.uninstall()\n"
        "print(changed is tf.estimator.Estimator.export_saved_model)\n"
        "with graph_opt.install():\n"
        "    print(changed is tf.estimator.Estimator.export_saved_model)\n"
        "print(changed.__wrapped__ is tf.estimator.Estimator.export_saved_model)\n"
    )
    assert run_forked(program, tmp_path).stdout == "False\nFalse\nFalse\nTrue\n"
