"""`graph-opt plan` on graph files."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from tests.json_documents import validated
from tests.report_page.page_models import content_of

SPEC = {"C1": tf.VarLenFeature(tf.int64)}
BATCH = ["--batch", "8"]


@pytest.fixture
def graph_file(tmp_path: Path) -> str:
    dataset = tf.data.TFRecordDataset("records").batch(8)
    parsed = dataset.map(lambda lines: tf.parse_example(lines, SPEC))
    features = tf.data.make_one_shot_iterator(parsed).get_next()
    table = tf.get_variable("users", [1000, 16])
    rows = tf.nn.embedding_lookup_sparse(table, features["C1"], None, combiner="mean")
    loss = tf.reduce_mean(tf.square(rows))
    tf.train.AdagradOptimizer(0.1).minimize(loss, name="train")
    path = tmp_path / "model.meta"
    tf.train.export_meta_graph(str(path))
    return str(path)


def test_costs_are_printed_before_and_after(
    graph_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", graph_file, *BATCH, "--ids-per-row", "users=5"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(graph_file + ": a step ends at train; batches of 8 rows\n")
    assert "before" in text and "after" in text and "62.5 KiB" in text
    assert "--ids-per-row" not in text.partition("assumed:")[0]


def test_json_has_the_same_numbers(graph_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", graph_file, *BATCH, "--ids-per-row", "5", "--json"]) == 0
    plan = validated(capsys.readouterr().out)
    assert plan["file"] == graph_file
    assert plan["before"]["rows"] == plan["after"]["rows"] == 40
    assert plan["memory"] == [{"device": "", "tables": 64000, "slots": 64000, "others": 0}]


def test_what_is_not_known_is_named_with_its_option(
    graph_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", graph_file]) == 0
    text = capsys.readouterr().out
    assert "not counted: users" in text
    assert "--ids-per-row 'users=N'" in text


def test_a_sample_tells_ids_of_lookups(
    graph_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = str(tmp_path / "sample.tfrecord")
    with tf.io.TFRecordWriter(sample) as writer:
        for ids in [[1, 2, 3], [1], [2]] * 8:
            example = tf.train.Example()
            example.features.feature["C1"].int64_list.value.extend(ids)
            writer.write(example.SerializeToString())
    assert main(["plan", graph_file, "--sample", sample, "--batch", "3", "--json"]) == 0
    plan = validated(capsys.readouterr().out)
    # Before TensorFlow 2.13, such a lookup reads the row of an id once.
    reads_each = "allow_fast_lookup" in inspect.signature(tf.nn.embedding_lookup_sparse).parameters
    assert plan["before"]["rows"] == (5 if reads_each else 3)
    assert "ids are those of 12 examples of " + sample in plan["assumptions"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delay-ms", "1"], "--delay-ms is for the rates that --measure measures"),
        (["--sample", "none"], "say --batch N, too"),
        (["--sample", "none", *BATCH], "none"),
        (["--ids-per-row", "many"], "--ids-per-row 'many': need NUMBER or REGEX=NUMBER"),
        (["--fetch", "no_such"], "--fetch 'no_such': the graph has no such node"),
    ],
)
def test_wrong_options_are_one_line(
    graph_file: str, capsys: pytest.CaptureFixture[str], arguments: list, message: str
) -> None:
    assert main(["plan", graph_file, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_inspect_shows_the_cost_of_a_step_in_text_json_and_page(
    graph_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    arguments = ["inspect", graph_file, *BATCH, "--ids-per-row", "5"]
    assert main([*arguments, "--html", str(page)]) == 0
    assert "cost: a step ends at train; batches of 8 rows" in capsys.readouterr().out
    cost = content_of(page.read_text("utf-8"))["cost"]
    assert ["rows of tables read", "40", "40", "-"] in cost["rows"]
    assert main([*arguments, "--json"]) == 0
    assert validated(capsys.readouterr().out)["cost"]["before"]["rows"] == 40
    assert main(["inspect", graph_file, "--ids-per-row", "5"]) == 2
    assert "say --batch N, too" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.alone
def test_measured_rates_give_an_estimate(
    graph_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", graph_file, *BATCH, "--ids-per-row", "5", "--measure", "--delay-ms", "3"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "estimate, without layers" in text
    assert "with servers 3 ms away" in text
    assert main([*arguments, "--json"]) == 0
    plan = validated(capsys.readouterr().out)
    assert plan["rates"]["call_seconds"] > 0.006
    assert plan["before"]["estimated_seconds"] > 0
