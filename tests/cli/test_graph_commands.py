"""`graph-opt rewrite` and `graph-opt inspect` on real graph files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List
from xml.etree import ElementTree

import numpy as np
import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.inspect.graph_files import read_graph, write_graph
from graph_opt.runtime.staged import staged
from tests.forked_programs import run_forked, start_graph_opt
from tests.json_documents import validated
from tests.passes.refused_tables import sent_through_horovod

REPOSITORY = Path(__file__).resolve().parents[2]
READY = str(REPOSITORY / "configs" / "async_embedding_thread_pool.pbtxt")


def _build(batch: int = 8) -> None:
    rows = {"ids": np.arange(64) % 10, "label": np.ones([64], np.float32)}
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(batch, drop_remainder=True)
    features = tf.data.make_one_shot_iterator(dataset).get_next()
    table = tf.get_variable("table", [10, 4])
    pooled = tf.nn.embedding_lookup(table, features["ids"], name="user")
    fed = tf.nn.embedding_lookup(table, tf.placeholder(tf.int64, [None], name="fed"), name="item")
    difference = tf.reduce_sum(pooled, 1) - features["label"]
    loss = tf.add(tf.reduce_mean(tf.square(difference)), tf.reduce_sum(fed), name="loss")
    tf.train.AdagradOptimizer(0.1).minimize(loss, name="train")


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    _build()
    path = tmp_path / "model.meta"
    tf.train.export_meta_graph(str(path))
    return path


def _stage_nodes(path: Path) -> Dict[str, Any]:
    nodes = read_graph(path).graph_def.node
    return {node.name: node for node in nodes if node.op == "TensorBufferPut"}


def test_inspect_shows_lookups_regions_boundary_and_refusals(
    graph_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = graph_file.read_bytes()
    picture = tmp_path / "regions.svg"
    assert main(["inspect", str(graph_file), "--picture", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    title = re.fullmatch(re.escape(str(graph_file)) + r": (\d+) nodes, (\d+) once .*", lines[0])
    assert title and int(title.group(1)) == len(read_graph(graph_file).graph_def.node)
    first = next(at for at, line in enumerate(lines) if line.split() == ["region", "nodes"]) + 1
    regions = lines[first : lines.index("", first)]
    assert sum(int(line.split()[-1]) for line in regions) == int(title.group(2))
    assert any(line.startswith("user ") and " async_embedding " in line for line in lines)
    assert any(line.startswith("item ") and " main " in line for line in lines)
    assert any(
        line.split() == ["user/Identity:0", "float32", "[8,", "4]", "128", "B"] for line in lines
    )
    assert any("no_io_dependence" in line or "placeholder" in line for line in lines)
    assert ElementTree.parse(str(picture)).getroot().tag.endswith("svg")
    assert graph_file.read_bytes() == before


def test_inspect_prints_json(graph_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(graph_file), "--json"]) == 0
    report = validated(capsys.readouterr().out)
    assert report["file"] == str(graph_file)
    assert report["nodes"] == len(read_graph(graph_file).graph_def.node)
    assert [lookup["outcome"] for lookup in report["lookups"]] == ["moved", "left in main"]
    (stage,) = report["stages"]
    crossing = {tensor["name"]: tensor["bytes"] for tensor in stage["boundary"]}
    assert crossing["user/Identity:0"] == 8 * 4 * 4
    assert sum(report["regions"].values()) > 0


@pytest.mark.parametrize("ending", [".pb", ".pbtxt", ".meta"])
def test_rewrite_writes_a_graph_that_runs(
    graph_file: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / ("out" + ending)
    assert main(["rewrite", str(graph_file), "--config", READY, "-o", str(output)]) == 0
    assert "1 of 2 lookups moved" in capsys.readouterr().out
    puts = _stage_nodes(output)
    prefetch = [put for put in puts.values() if put.attr["_stage_kind"].s == b"prefetch"]
    assert [put.attr["_stage_threads"].i for put in prefetch] == [2]
    assert [put.attr["_stage_thread_pool"].i for put in prefetch] == [0]
    names = {node.name for node in read_graph(graph_file).graph_def.node}
    assert names <= {node.name for node in read_graph(output).graph_def.node}
    with tf.Graph().as_default():
        tf.import_graph_def(read_graph(output).graph_def, name="")


def test_rewrite_writes_no_inferred_shapes(tmp_path: Path) -> None:
    _build()
    write_graph(tf.get_default_graph().as_graph_def(), tmp_path / "in.pb")
    assert main(["rewrite", str(tmp_path / "in.pb"), "-o", str(tmp_path / "out.pb")]) == 0
    written = read_graph(tmp_path / "out.pb").graph_def
    assert not any("_output_shapes" in node.attr for node in written.node)
    (put,) = [node for node in written.node if node.name == "async_embedding/TensorBufferPut"]
    (take,) = [node for node in written.node if node.name == "async_embedding/TensorBufferTake"]
    assert len(take.attr["shapes"].list.shape) == len(put.attr["dtypes"].list.type)


def test_rewrite_of_a_meta_file_keeps_its_collections(graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.meta"
    assert main(["rewrite", str(graph_file), "-o", str(output)]) == 0
    before, after = read_graph(graph_file).meta_graph_def, read_graph(output).meta_graph_def
    assert before is not None and after is not None
    assert after.collection_def == before.collection_def
    assert after.saver_def == before.saver_def


def test_the_same_file_gives_the_same_bytes(graph_file: Path, tmp_path: Path) -> None:
    for name in ("one.pb", "two.pb"):
        assert main(["rewrite", str(graph_file), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.pb").read_bytes() == (tmp_path / "two.pb").read_bytes()


def test_a_rewritten_graph_is_not_rewritten_again(
    graph_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.pb"
    assert main(["rewrite", str(graph_file), "-o", str(output)]) == 0
    assert main(["rewrite", str(output), "-o", str(output)]) == 1
    error = capsys.readouterr().err
    assert "out.pb: the graph was rewritten before" in error and error.count("\n") == 1


FUSED_ONLY = ["--set", "do_group_embedding=true"]
BOTH = [*FUSED_ONLY, "--set", "do_async_embedding=true"]


@pytest.mark.parametrize("options", [[], BOTH, FUSED_ONLY], ids=["async", "both", "fused"])
def test_inspect_shows_what_a_rewritten_graph_consists_of(
    graph_file: Path, tmp_path: Path, options: List[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "out.pb")
    assert main(["inspect", str(graph_file), "--json", *options]) == 0
    planned = validated(capsys.readouterr().out)
    assert main(["rewrite", str(graph_file), "-o", output, *options]) == 0
    capsys.readouterr()
    assert main(["inspect", output, "--json"]) == 0
    found = validated(capsys.readouterr().out)
    assert (planned["rewritten"], found["rewritten"]) == (False, True)
    for key in ("lookups", "fused_lookups"):
        described = {(tuple(one["tables"]), one.get("outcome")) for one in planned[key]}
        assert {(tuple(one["tables"]), one.get("outcome")) for one in found[key]} == described
    for part in ("gradient", "update"):
        assert [one[part] for one in found["fused_lookups"]] == [
            one[part] for one in planned["fused_lookups"]
        ]
    boundaries = [
        [
            sorted((tensor["dtype"], tensor["bytes"] or -1) for tensor in stage["boundary"])
            for stage in report["stages"]
        ]
        for report in (planned, found)
    ]
    assert boundaries[0] == boundaries[1]
    if options != FUSED_ONLY:
        (before,), (after,) = planned["stages"], found["stages"]
        assert after["name"] == before["name"]
        assert after["io_stage"] == before["io_stage"]
        assert 0 <= after["nodes"] - before["nodes"] <= 1  # The put is one of them.
    picture = tmp_path / "regions.svg"
    assert main(["inspect", output, "--picture", str(picture)]) == 0
    assert ", rewritten before" in capsys.readouterr().out.splitlines()[0]
    ElementTree.parse(str(picture))


def test_inspect_lists_the_lookups_where_no_option_asks_for_anything(
    graph_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(graph_file), "--set", "do_async_embedding=false"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["user", "tf.nn.embedding_lookup", "-", "table", "main"] in lines
    assert ["item", "tf.nn.embedding_lookup", "-", "table", "main"] in lines
    assert "no embedding lookup found" not in out
    assert "nor do_smart_stage nor micro_batch_num nor pipeline_dense is set" in out


def test_inspect_says_which_tables_ranks_could_divide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tf.get_variable("table", [10, 4])
    rows = tf.nn.embedding_lookup(table, tf.placeholder(tf.int64, [None]))
    path = tmp_path / "replicated.pb"
    write_graph(sent_through_horovod(rows, table), path)
    asked = ["--set", "shard_tables=true", "--set", "shard_tables_options.min_table_bytes=1"]
    assert main(["inspect", str(path), *asked]) == 0
    out = capsys.readouterr().out
    assert re.search(r"table .* 320 B +320 B +whole, but could be sharded", out)
    assert "the process is not one of several ranks" in out
    assert main(["rewrite", str(path), "-o", str(tmp_path / "out.pb"), *asked]) == 1
    assert "the process is not one of several ranks" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["inspect", "rewrite"])
def test_saved_models_and_checkpoints_are_graphs(
    graph_file: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, checkpoints = tmp_path / "saved", tmp_path / "checkpoints"
    checkpoints.mkdir()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(checkpoints / "model.ckpt"), global_step=3)
        builder = tf.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["train"])
        builder.add_meta_graph(["serve"])
        builder.save()
    output = ["-o", str(tmp_path / "out.meta")] if command == "rewrite" else []
    for path in (checkpoints, checkpoints / "model.ckpt-3"):
        assert main([command, str(path), *output]) == 0
        assert "1 of 2 lookups moved" in capsys.readouterr().out or command == "inspect"
    assert main([command, str(folder), *output, "--tags", "train"]) == 0
    capsys.readouterr()
    assert main([command, str(folder), *output]) == 2
    error = capsys.readouterr().err
    assert "saved_model.pb: the SavedModel has graphs tagged train / serve: choose" in error
    assert main([command, str(tmp_path), *output]) == 2
    assert "neither a SavedModel (saved_model.pb) nor a checkpoint" in capsys.readouterr().err


def test_names_with_control_characters_are_spelled_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_def = tf.GraphDef()
    _build()
    for node in tf.get_default_graph().as_graph_def().node:
        copy = graph_def.node.add()
        copy.CopyFrom(node)
        copy.name = copy.name.replace("item", "i\x1b[31m\nt\u00e9m")
        for slot, name in enumerate(copy.input):
            copy.input[slot] = name.replace("item", "i\x1b[31m\nt\u00e9m")
    write_graph(graph_def, tmp_path / "odd.pb")
    picture = tmp_path / "odd.svg"
    assert main(["inspect", str(tmp_path / "odd.pb"), "--picture", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "i\\x1b[31m\\nt\u00e9m" in out and "\x1b" not in out
    texts = " ".join(ElementTree.parse(str(picture)).getroot().itertext())
    assert "i\\x1b[31m\\nt\u00e9m (left)" in texts


def test_a_graph_without_a_lookup_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tf.constant(1.0)
    write_graph(tf.get_default_graph().as_graph_def(), tmp_path / "in.pb")
    output = tmp_path / "out.pb"
    assert main(["rewrite", str(tmp_path / "in.pb"), "-o", str(output)]) == 1
    assert (
        "in.pb: no lookup can be moved or fused, nothing was written\nno embedding l"
        in capsys.readouterr().err
    )
    assert not output.exists()
    assert main(["inspect", str(tmp_path / "in.pb")]) == 0
    assert "no embedding lookup found" in capsys.readouterr().out


def test_lookups_that_stay_are_refused_with_reasons(
    graph_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["rewrite", str(graph_file), "-o", str(tmp_path / "out.pb")]
    assert main([*arguments, "--set", "infer_io_stage=false"]) == 2
    error = capsys.readouterr().err
    assert "model.meta: do_async_embedding needs an IO stage" in error and error.count("\n") == 1
    assert main([*arguments, "--set", "do_async_embedding=false"]) == 1
    error = capsys.readouterr().err
    assert "nothing was written" in error and "neither do_async_embedding nor do_group" in error


def test_wrong_files_and_options_are_one_line(
    graph_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, out = str(graph_file), str(tmp_path / "out.pb")
    cut = tmp_path / "cut.pb"
    cut.write_bytes(read_graph(graph_file).graph_def.SerializeToString()[:500])
    half = tf.GraphDef()
    half.node.extend(list(read_graph(graph_file).graph_def.node)[30:])
    write_graph(half, tmp_path / "half.pb")
    bad = tmp_path / "bad.pbtxt"
    bad.write_text(
        "graph_options { optimizer_options { do_async_embedding: true "
        "async_embedding_options { threads_num: 0 capacity: 2 } } }"
    )
    cases = [
        (["inspect", str(tmp_path / "none.pb")], "none.pb: no such file"),
        (
            ["inspect", str(cut)],
            "cut.pb: truncated, or neither a GraphDef nor a MetaGraphDef nor a ",
        ),
        (["inspect", str(tmp_path / "half.pb")], "half.pb: node "),
        (["inspect", "/dev/null"], "/dev/null: the file is empty"),
        (["inspect", graph, "--tags", "serve"], "model.meta: only a SavedModel has tags"),
        (["inspect", __file__], "test_graph_commands.py:1:1: truncated, or not a text proto"),
        (
            ["rewrite", graph, "-o", str(tmp_path / "no" / "x.pb")],
            "x.pb: cannot be written: No such",
        ),
        (
            ["rewrite", graph, "-o", out, "--set", "capacity=0"],
            "graph-opt: --set capacity=0: graph_options.optimizer_options.async_embedding_options."
            "capacity is 0, must be at least 1",
        ),
        (
            ["rewrite", graph, "-o", out, "--config", str(bad), "--set", "capacity=3"],
            "graph-opt: {}: graph_options.optimizer_options.async_embedding_options."
            "threads_num is 0, must be 1 to 1024".format(bad),
        ),
        (["rewrite", graph, "-o", out, "--set", "capacitee=1"], "did you mean capacity?"),
        (["rewrite", graph, "-o", out, "--config", "none"], "none: there is no such config file"),
        (["inspect", graph, "--picture", str(tmp_path)], "cannot be written"),
    ]
    for arguments, message in cases:
        assert main(arguments) == 2, arguments
        captured = capsys.readouterr()
        assert captured.err.startswith("graph-opt: ") and captured.err.count("\n") == 1
        assert message in captured.err
        assert captured.out == ""
    assert not os.path.exists(out)


@pytest.mark.parametrize("ending", [".pb", ".pbtxt"])
def test_a_graph_may_come_through_a_pipe(
    graph_file: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, pipe = tmp_path / ("stored" + ending), tmp_path / "pipe"
    write_graph(read_graph(graph_file).graph_def, stored)
    os.mkfifo(str(pipe))
    with subprocess.Popen(["cp", str(stored), str(pipe)]):
        assert main(["inspect", str(pipe)]) == 0
    assert "user" in capsys.readouterr().out


@pytest.mark.slow
def test_output_that_nobody_can_read(graph_file: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from graph_opt.cli.main import main\n"
        "read, write = os.pipe()\n"
        "os.close(read)\n"
        "sys.stdout = os.fdopen(write, 'w')\n"
        "sys.exit(main(['inspect', sys.argv[1]]))\n"
    )
    assert run_forked(program, tmp_path, str(graph_file)) == ("", "", 0)


def test_output_that_cannot_be_written(
    graph_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["inspect", "--json", str(graph_file)]) == 2
    message = "graph-opt: the output cannot be written: No space left on device\n"
    assert capsys.readouterr().err == message


def test_an_interrupt_is_one_line(tmp_path: Path) -> None:
    fifo = str(tmp_path / "graph.pb")
    os.mkfifo(fifo)
    command = start_graph_opt(["inspect", fifo], tmp_path)
    with open(fifo, "wb"):  # Opens once the command does, which then waits for a graph.
        os.kill(command.process.pid, signal.SIGINT)
        assert command.wait() == ("", "graph-opt: interrupted\n", 130)


def test_a_graph_with_its_own_io_stage_keeps_static_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = tf.data.Dataset.from_tensors(np.arange(6)).repeat()
    ids = staged(tf.data.make_one_shot_iterator(dataset).get_next())
    rows = tf.nn.embedding_lookup(tf.get_variable("table", [10, 4]), ids)
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)))
    path = str(tmp_path / "staged.pb")
    write_graph(tf.get_default_graph().as_graph_def(), Path(path))
    assert main(["inspect", path]) == 0
    out = capsys.readouterr().out
    assert "batches of staged/TensorBufferTake" in out
    assert "48 B" in out and "96 B" in out
