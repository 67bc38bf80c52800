"""Shadowed steps: nothing changes where rewrites are right, and training goes on where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.graph.rewrite import InputEdit, Rewrite
from graph_opt.passes import optimize
from graph_opt.passes.optimize import PASSES, Pass
from graph_opt.reporting.warnings_given import forget_warnings
from tests.control_flow import control_flow_v2
from tests.release_features import needs_estimators
from tests.session import shadowed_training as training
from tests.session.parameter_servers import free_addresses, parameter_servers
from tests.session.shadowed_training import STEPS, Model, assert_close, assert_same, config, train

NONE = graph_opt.ConfigProto()


@pytest.fixture()
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite that makes another model."""
    forget_warnings()
    monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)


def warned(run: training.Run) -> str:
    """What the report says of shadowed steps."""
    return "\n".join(text for text in run.report.warnings if "step" in text)


@pytest.mark.slow
def test_steps_of_a_right_rewrite_are_what_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    plain = train(config(2, shadow=0, exact=True))
    assert_same(train(config(2, exact=True)), plain)
    assert "the first 4 training steps compute what TensorFlow's ops do" in capfd.readouterr().err


@pytest.mark.slow
def test_a_wrong_rewrite_is_stopped_before_it_updates_anything(faulty: None) -> None:
    stopped = train(config(2))
    assert_same(stopped, train(NONE))
    text = warned(stopped)
    assert "training step 1 differs" in text and "by pass wrong" in text
    assert "goes on with TensorFlow's ops" in text and "'users'" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "ways",
    [
        {"fetches_loss": False},
        {"compiled": True},
        {"evaluates": True},
    ],
)
@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("is_faulty", [False, True])
def test_however_steps_are_run(
    threads: int, ways: Any, is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_warnings()
    if is_faulty:
        monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)
    model = Model(wrong_from=2)
    expected = train(NONE if is_faulty else config(shadow=0), model, **ways)
    found = train(config(threads, exact=threads > 0), model, **ways)
    (assert_close if is_faulty else assert_same)(found, expected)
    assert ("training step 3 differs" in warned(found)) == is_faulty


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        Model(dropout=True),
        Model(loops=True),
        Model(python=True),
        Model(fed=True),
        Model(fed=True, dropout=True),
        Model(epochs=2, optimizer="momentum"),
        Model(optimizer="ftrl"),
        Model(bad=1),
        Model(bad=6),
        Model(teaches=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("is_faulty", [False, True])
def test_models(
    model: Model, threads: int, is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_warnings()
    if is_faulty:
        monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)
    model.wrong_from = 2
    expected = train(NONE if is_faulty else config(shadow=0), model)
    found = train(config(threads, exact=threads > 0), model)
    (assert_close if is_faulty else assert_same)(found, expected)
    assert ("training step 3 differs" in warned(found)) == is_faulty
    assert len(found.failed) == len(expected.failed) == (model.bad >= 0)
    if threads == 0 or not model.python:
        assert found.calls == expected.calls


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["cond", "loop"])
@pytest.mark.parametrize("in_functions", [False, True])
@pytest.mark.parametrize("is_faulty", [False, True])
def test_what_is_wrong_inside_a_cond_or_a_loop(
    inside: str, in_functions: bool, is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_warnings()
    if is_faulty:
        monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)
    model = Model(inside=inside, wrong_from=2)
    with control_flow_v2(in_functions):
        expected, found = train(NONE, model), train(config(2), model)
    if is_faulty:
        assert_close(found, expected)
    assert ("training step 3 differs" in warned(found)) == is_faulty
    assert ("'branch/inside', by pass wrong" in warned(found)) == (is_faulty and not in_functions)


@pytest.mark.slow
def test_rounding_that_layers_amplify_is_no_difference(faulty: None) -> None:
    model = Model(amplifies=True, wrong_from=2)
    found, expected = train(config(), model), train(NONE, model)
    assert not warned(found)
    assert abs(found.losses[2] - expected.losses[2]) > 1e-3 * expected.losses[2]


@pytest.mark.slow
def test_without_a_loss_lookups_alone_are_compared(capfd: pytest.CaptureFixture[str]) -> None:
    forget_warnings()
    built = training.build(Model())
    tf.get_default_graph().clear_collection(tf.GraphKeys.LOSSES)
    with graph_opt.Session(config=config(2, shadow=2)) as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for _ in range(2):
            session.run(built.train)
    report = graph_opt.report()
    assert report is not None and "shadow_steps does not compare a loss" in str(report.warnings)
    assert "the lookups of the first 2 training steps compute" in capfd.readouterr().err


def test_a_step_that_differs_can_be_made_to_fail(faulty: None) -> None:
    options = config(2, shadow_difference="fail")
    built = training.build(Model(wrong_from=1))
    with graph_opt.Session(config=options) as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        session.run(built.train)
        with pytest.raises(tf.errors.InternalError, match=r"training step 2 differs.*pass wrong"):
            session.run(built.train)
        assert session.run(built.step) == 1


@pytest.mark.slow
def test_steps_run_nothing_of_it_once_all_are_compared() -> None:
    built = training.build(Model())
    with graph_opt.Session(config=config(2, shadow=2)) as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        ran = [_nodes(session, built.train) for _ in range(4)]
        assert ran[2] == ran[3]
        assert not [name for name in ran[3] if "graph_opt_stock" in name]
        assert session._shadow is None


def _nodes(session: Any, fetches: Any) -> List[str]:
    metadata = tf.RunMetadata()
    session.run(fetches, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return sorted(node.name for part in metadata.partition_graphs for node in part.node)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
@pytest.mark.parametrize(
    "options",
    [
        {"fuse": False, "threads": 2},
        {"fuse": False, "do_smart_stage": True},
        {"threads": 1, "micro_batch_num": 2},
        {"threads": 2, "adam": "deferred"},
        {"threads": 2, "adam": "stock"},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_faulty", [False, True])
def test_options(
    options: Any, optimizer: str, is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_warnings()
    if is_faulty:
        monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)
    given = dict(options)
    adam = given.pop("adam", "deferred")
    made = config(shadow=STEPS, **given)
    made.graph_options.optimizer_options.group_embedding_options.adam = adam
    model = Model(optimizer=optimizer, wrong_from=2)
    # Adam's slots decay even in a step that meets the end of the input.
    found = train(made, model, steps=STEPS - 1)
    assert_close(found, train(NONE, model, steps=STEPS - 1))
    assert ("training step 3 differs" in warned(found)) == is_faulty
    assert "no effect" not in warned(found)


@pytest.fixture(scope="module", params=[False, True], ids=["stock servers", "our servers"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """A worker with two parameter servers."""
    *servers, worker = free_addresses(3)
    cluster = {"ps": servers, "worker": [worker]}
    with parameter_servers(cluster, has_ops=[request.param] * 2):
        yield tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker").target


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"threads": 2}, {"threads": 2, "pipeline_dense": True},
     {"threads": 2, "pipeline_dense": True, "dense_staleness": 0}, {"pipeline_dense": True}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("is_faulty", [False, True])
def test_servers(
    target: str, options: Any, is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_warnings()
    if is_faulty:
        monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)
    model = Model(servers=2)
    found = train(config(shadow=STEPS, **options), model, target)
    expected = train(NONE, model, target)
    assert ("training step 1 differs" in warned(found)) == is_faulty
    assert "no effect" not in warned(found)
    if is_faulty:
        assert_same(found, expected)
    elif "pipeline_dense" not in options or "dense_staleness" in options:
        assert_close(found, expected)
    assert len(found.losses) == len(expected.losses)


@pytest.mark.slow
@pytest.mark.parametrize("is_faulty", [False, True])
def test_monitored_sessions_and_what_they_save(
    tmp_path: Path, is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_faulty:
        monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)

    def saved(options: Any, folder: str) -> Dict[str, np.ndarray]:
        losses: List[float] = []
        for steps in (4, 3):  # The second session goes on from the first one's checkpoint.
            with tf.Graph().as_default():
                built = training.build(Model(optimizer="momentum"))
                with graph_opt.train.MonitoredTrainingSession(
                    config=options,
                    checkpoint_dir=str(tmp_path / folder),
                    save_checkpoint_steps=2,
                    save_summaries_steps=2,
                    hooks=[tf.train.StopAtStepHook(num_steps=steps)],
                ) as session:
                    while not session.should_stop():
                        losses.append(session.run([built.loss, built.train])[0])
        reader = tf.train.load_checkpoint(str(tmp_path / folder))
        values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
        return dict(values, losses=np.array(losses))

    found, expected = saved(config(2, shadow=3, exact=True), "ours"), saved(NONE, "stock")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, 0 if is_faulty else 1e-4, err_msg=name)


@needs_estimators
@pytest.mark.slow
def test_estimators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        built = training.build(Model())
        metrics = {"mean": tf.metrics.mean(built.loss)}
        return tf.estimator.EstimatorSpec(
            mode, loss=built.loss, train_op=built.train, eval_metric_ops=metrics
        )

    def trained(options: Any, folder: str) -> Any:
        with graph_opt.install(options):
            estimator = tf.estimator.Estimator(
                model_fn, config=tf.estimator.RunConfig(model_dir=str(tmp_path / folder))
            )
            data = lambda: tf.data.Dataset.from_tensors(0).repeat(20)  # noqa: E731
            estimator.train(data, steps=5)
            return estimator.evaluate(data, steps=2), estimator.get_variable_value("users")

    forget_warnings()
    right, _ = trained(config(2, exact=True), "right")
    monkeypatch.setattr(optimize, "PASSES", training.FAULTY_PASSES)
    found, users = trained(config(2), "wrong")
    expected, stock_users = trained(NONE, "stock")
    assert found == expected
    np.testing.assert_array_equal(users, stock_users)
    np.testing.assert_allclose(right["loss"], expected["loss"], 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("is_faulty", [False, True])
def test_keras(
    is_faulty: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    forget_warnings()

    def doubled(state: Any, options: Any) -> Any:
        name = next(each for each in state.view.of_op("MatMul") if "gradient" not in each.lower())
        tensor = state.view.inputs(name)[0].input_name
        node = tf.NodeDef(name="wrong/sum", op="AddV2", input=[tensor, tensor])
        node.attr["T"].type = tf.float32.as_datatype_enum
        return state.rewritten(Rewrite((node,), (InputEdit(name, 0, node.name),)))

    if is_faulty:
        monkeypatch.setattr(optimize, "PASSES", (*PASSES, Pass(doubled, "to be found")))

    def fitted(options: Any) -> Any:
        with tf.Graph().as_default(), graph_opt.install(options):
            tf.set_random_seed(1)
            with tf.Session() as session:
                tf.keras.backend.set_session(session)
                model = tf.keras.Sequential(
                    [
                        tf.keras.layers.Embedding(20, 4, input_length=3),
                        tf.keras.layers.Flatten(),
                        tf.keras.layers.Dense(1),
                    ]
                )
                model.compile(tf.train.AdagradOptimizer(0.1), "mse")
                values = training.data(Model())
                fit = model.fit(
                    values["ids"], values["label"], 8, epochs=2, verbose=0, shuffle=False
                )
                rows = model.predict(values["ids"])
                return fit.history["loss"], rows, str(graph_opt.report())

    losses, rows, report = fitted(config(shadow=3))
    expected, stock_rows, _ = fitted(NONE)
    assert ("training step 1 differs" in report) == is_faulty
    assert ("first 3 training steps compute" in capfd.readouterr().err) == (not is_faulty)
    np.testing.assert_allclose(losses, expected, 1e-5)
    np.testing.assert_allclose(rows, stock_rows, 1e-3, 1e-5)


@pytest.mark.slow
def test_partial_runs_end_the_comparison() -> None:
    forget_warnings()
    model = Model(fed=True)
    built = training.build(model)
    values = training.data(model)
    feed = {tensor: values[name][:8] for name, tensor in built.inputs.items()}
    with graph_opt.Session(config=config()) as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        handle = session.partial_run_setup([built.loss], list(feed))
        session.partial_run(handle, built.loss, feed)
        session.run(built.train, feed)
        assert session.run(built.step) == 1
    report = graph_opt.report()
    ended = "shadow_steps ended after 0 steps: steps of partial_run cannot be compared"
    assert report is not None and ended in report.warnings
