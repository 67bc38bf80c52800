"""What `help` and `?` show of public names: arguments, and examples; most of these run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pydoc
import shutil
from pathlib import Path
from typing import Any, Dict, List

import pyarrow.parquet
import pytest

import graph_opt
import graph_opt.train
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sok import communication
from tests.documented.page import REPOSITORY
from tests.documented.surroundings import ROWS, asynchronous, bags, batches, model_fn, trained
from tests.processes import start_process
from tests.repository_checks import PUBLIC_MODULES
from tests.serving.models_to_serve import of_placeholders, save

EXAMPLE = "Example:"
BARE = ("(*args, **kwargs)", "(*args, **kwargs) -> None", "(*args: Any, **kwargs: Any) -> Any")
# They need other ranks, a server, a script, a checkpoint, or an option that samples steps.
NOT_RUN = {
    "graph_opt." + name
    for name in (
        "CollectiveStrategy",
        "install",
        "refresh_metrics",
        "staleness_metrics",
        "train.WorkerSessionCreator",
        "train.import_meta_graph",
    )
}


def public_names() -> Dict[str, Any]:
    """All classes and functions of the public modules, by their dotted names."""
    found = {}
    for module_name in sorted(PUBLIC_MODULES):
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                found["{}.{}".format(module_name, name)] = value
    return found


PUBLIC = public_names()
RUN = [
    name
    for name, value in sorted(PUBLIC.items())
    if name.rpartition(".")[0] in ("graph_opt", "graph_opt.train") and name not in NOT_RUN
]
OF_ONE_RANK = [
    name
    for name, value in sorted(PUBLIC.items())
    if inspect.getmodule(value) is communication and value is not sok.init
]


def examples_of(documented: Any) -> List[doctest.Example]:
    return doctest.DocTestParser().get_examples(documented.__doc__ or "")


def code_of(documented: Any) -> Any:
    """The code of a docstring's examples, without what they print."""
    return compile("".join(one.source for one in examples_of(documented)), "example", "exec")


def test_the_packages_example_runs_ahead() -> None:
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(ROWS).batch(8)).get_next()
    _, train_op = trained(tf.nn.embedding_lookup(tf.get_variable("table", [ROWS, 4]), ids))
    assert len(examples_of(graph_opt)) > 5
    exec(code_of(graph_opt), {"train_op": train_op})
    report = graph_opt.report()
    assert report is not None
    (lookup,) = report.lookups
    assert lookup.outcome == "moved"


def test_every_public_name_has_an_example() -> None:
    assert len(PUBLIC) > 100
    missing = [name for name, value in PUBLIC.items() if EXAMPLE not in (value.__doc__ or "")]
    assert missing == []


def test_every_public_name_shows_its_arguments() -> None:
    """A signature of `*args, **kwargs` alone is that of a wrapper, or of TensorFlow's metaclass."""
    bare = [name for name, value in PUBLIC.items() if str(inspect.signature(value)) in BARE]
    assert bare == []


def test_help_describes_every_public_name() -> None:
    for name, value in PUBLIC.items():
        shown = pydoc.plain(pydoc.render_doc(value))
        first = inspect.getdoc(value).splitlines()[0]  # type: ignore[union-attr]
        assert first in shown, name


def test_every_public_name_is_completed() -> None:
    for module_name in sorted(PUBLIC_MODULES):
        module = importlib.import_module(module_name)
        assert set(module.__all__) <= set(dir(module)), module_name


def test_every_example_is_python() -> None:
    assert [name for name, value in PUBLIC.items() if not code_of(value).co_names] == []


def test_one_rank_prints_what_the_examples_show() -> None:
    assert len(OF_ONE_RANK) > 6
    process = start_process(run_examples_of_one_rank)
    process.join()
    assert process.exitcode == 0


def run_examples_of_one_rank() -> None:
    """Exits with 1 if an example prints something else; a process keeps its choice of ranks."""
    runner = doctest.DocTestRunner()
    for name in OF_ONE_RANK:
        runner.run(doctest.DocTest(examples_of(PUBLIC[name]), {"sok": sok}, name, None, 0, None))
    raise SystemExit(int(runner.failures > 0))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(str(REPOSITORY / "configs"), "configs")
    rows = {"user": [3, 5], "tags": [["a", "b"], []]}
    pyarrow.parquet.write_table(pyarrow.table(rows), "day_0.parquet")
    save(of_placeholders, Path("export/1"))
    with graph_opt.install():
        code = code_of(PUBLIC[name])
        names = usual_names(has_sparse_ids=name.endswith("_sparse"))
        if "session" in code.co_names and "config" not in code.co_names:
            names["session"] = session_in_use(names["train_op"])
        if "update_served" in code.co_names:
            export_before_a_checkpoint()
        try:
            exec(code, names)
        finally:
            for value in names.values():
                if isinstance(value, (tf.Session, tf.InteractiveSession)):
                    value.close()  # An interactive one would be the default session of later tests.


def usual_names(has_sparse_ids: bool) -> Dict[str, Any]:
    """What examples leave out: a small model, ids of a batch, and the public names themselves."""
    iterator = tf.data.make_one_shot_iterator(batches(steps=20))
    ids, _ = graph_opt.staged(iterator.get_next())
    table = tf.get_variable("users", [ROWS, 16])
    loss, train_op = trained(tf.nn.embedding_lookup(table, ids))
    names = {name.rpartition(".")[2]: PUBLIC[name] for name in RUN}
    names.update(tf=tf, graph_opt=graph_opt, graph=tf.get_default_graph())
    names.update(config=asynchronous(), loss=loss, train_op=train_op, table=table, ids=bags(ids))
    names.update(kernels=[tf.trainable_variables()[-1]], global_step=tf.train.get_global_step())
    for name in ("user", "item"):
        names[name + "_ids"] = bags(ids) if has_sparse_ids else ids
        names[name + "_table"] = table
    names.update(is_frequent=tf.ones([8], tf.int32), hooks=[], buckets=table)
    names.update(users=graph_opt.get_embedding_variable("by_key", 16))
    prices = bags(tf.cast(ids, tf.float32))
    names.update(features={"user": ids, "visits": bags(ids), "price": prices})
    names.update(iterator=iterator, clicks=iterator, views=iterator, graph_def=tf.GraphDef())
    column = tf.feature_column.categorical_column_with_identity("user", ROWS)
    names.update(categorical=[column], other=column)
    names.update(my_lookup=lambda table, _: tf.nn.embedding_lookup(table, ids), model_fn=model_fn)
    names.update(input_fn=lambda: batches().map(lambda user, item: user))
    return names


def session_in_use(train_op: Any) -> Any:
    """A session that has trained a step."""
    session = graph_opt.Session(config=asynchronous())
    session.run(tf.global_variables_initializer())
    session.run(train_op)
    return session


def export_before_a_checkpoint() -> None:
    """An export whose tables can be updated, and a checkpoint that was saved after it."""
    graph_opt.export_fused("export/1", "served/1", map_tables=True)
    with tf.Graph().as_default(), tf.Session() as session:
        of_placeholders()
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, "model/model.ckpt", 2000)
