"""`graph-opt run --report`: the whole report of a script and of the processes it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.inspect.graph_files import write_graph
from tests.forked_programs import start_graph_opt
from tests.json_documents import validated
from tests.report_page.page_models import content_of

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).resolve().parent / "scripts" / "reported.py"
SETTINGS = ["--set", "do_group_embedding=true", "--set", "do_async_embedding=true"]
MOVED = "2 of 2 lookups run ahead of the step"
FED = "0 of 2 lookups run ahead of the step, 2 left as they are (placeholder_upstream)"


def run(arguments: List[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=str(REPOSITORY))
    environment["TMPDIR"] = str(folder)  # A process that is killed leaves a folder there.
    environment.update(variables)
    command = [sys.executable, "-m", "graph_opt.cli", "run", *arguments]
    return subprocess.run(
        command, cwd=str(folder), env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_lines_and_a_report_of_all_processes_as_json(tmp_path: Path) -> None:
    done = run(["--report", "all.json", str(SCRIPT), "spawn", "start"], tmp_path)
    assert done.returncode == 3, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("graph_opt: ")]
    assert said == [
        "graph_opt: session 1: " + MOVED,
        "graph_opt: session 2: {}; all.json says why".format(FED),
        "graph_opt: session 1: " + MOVED,
        "graph_opt: session 1: " + MOVED,
        "graph_opt: session 2: {}; all.json says why".format(FED),
    ]
    processes = validated((tmp_path / "all.json").read_text())["processes"]
    summaries = [[one["summary"] for one in process["sessions"]] for process in processes]
    assert summaries[0] == [MOVED, FED]
    assert sorted(summaries[1:]) == [[MOVED], [MOVED, FED]]
    (stage,) = processes[1]["sessions"][0]["report"]["stages"]
    assert stage["name"] == "async_embedding"


def test_a_script_that_is_killed_leaves_a_text_report(tmp_path: Path) -> None:
    killed = ["run", "--report", "all.txt", str(SCRIPT), "kill"]
    done = start_graph_opt(killed, tmp_path, TMPDIR=str(tmp_path)).wait()
    assert done.returncode < 0
    text = (tmp_path / "all.txt").read_text()
    rows = [line for line in text.splitlines() if line.startswith("placeholder_upstream")]
    assert len(rows) == 1 and rows[0].split()[1] == "2"
    assert rows[0].endswith("or read the ids from a dataset")


LAYERS = """
import sparse_operation_kit as sok
import tensorflow as tf
table = sok.DynamicVariable(2, "3")
assert tf.nn.embedding_lookup(table, [5]).numpy().tolist() == [[3.0, 3.0]]
"""


@pytest.mark.slow
def test_a_script_that_opens_no_session_gets_a_message(tmp_path: Path) -> None:
    (tmp_path / "eager.py").write_text("import tensorflow as tf\nprint(tf.function(lambda: 2)())\n")
    done = start_graph_opt(["run", "eager.py"], tmp_path).wait()
    assert done.returncode == 0, done.stderr
    assert "graph_opt: no session ran in this process, so nothing was optimized" in done.stderr
    (tmp_path / "layers.py").write_text(LAYERS)
    done = start_graph_opt(["run", "--sok", "layers.py"], tmp_path).wait()
    assert done.returncode == 0, done.stderr
    assert "tables and layers work without one" in done.stderr
    assert "nothing was optimized" not in done.stderr
    (tmp_path / "stops.py").write_text("import sys\nimport tensorflow\nsys.exit('no data')\n")
    done = start_graph_opt(["run", "stops.py"], tmp_path).wait()
    assert done.stderr.endswith("no data\n") and "no session" not in done.stderr
    (tmp_path / "none.py").write_text("print('nothing')\n")
    error = run(["none.py"], tmp_path).stderr
    assert "graph-opt run: the script did not import TensorFlow" in error


@pytest.mark.slow
def test_processes_that_a_script_starts_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text("print('hidden')\n")
    (tmp_path / "plain.py").write_text(
        "import os, sys\n"
        "print([folder for folder in sys.path if 'on_path' in folder])\n"
        "print('graph_opt.cli.watched_program' in sys.modules, 'tensorflow' in sys.modules)\n"
    )
    start = "import subprocess, sys\nsubprocess.check_call([sys.executable, {!r}{}])\n"
    (tmp_path / "starts.py").write_text(start.format("plain.py", ""))
    (tmp_path / "alone.py").write_text(start.format("-I", ", 'plain.py'"))
    done = run(["starts.py"], tmp_path, PYTHONPATH="{}:{}".format(tmp_path / "hidden", REPOSITORY))
    assert done.stdout.splitlines() == ["hidden", "hidden", "[]", "True False"], done.stderr
    assert run(["alone.py"], tmp_path).stdout.splitlines() == ["[]", "False False"]


def test_a_report_that_cannot_be_written_is_an_error_before_the_script_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "missing" / "report.txt"
    assert main(["run", "--report", str(target), str(tmp_path / "none.py")]) == 2
    error = capsys.readouterr().err
    assert "cannot write the report" in error and error.count("\n") == 1


def test_a_report_that_finds_no_room_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("print('nothing')\n")
    done = run(["--report", "/dev/full", "none.py"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "nothing\n")
    (line,) = [line for line in done.stderr.splitlines() if "report" in line]
    assert line == ("graph-opt run: cannot write the report '/dev/full': No space left on device")


@pytest.mark.slow
def test_a_page_for_each_process_with_its_timeline(tmp_path: Path) -> None:
    done = run(["--report", "all.html", *SETTINGS, str(SCRIPT), "start"], tmp_path)
    assert done.returncode == 3, done.stderr
    (other,) = tmp_path.glob("all.process*.html")
    for page in (tmp_path / "all.html", other):
        content = content_of(page.read_text())
        assert "main" in [lane["stage"] for lane in content["timeline"]["lanes"]]
        notes = [text for kind, text in content["overview"]["notes"] if kind == "of the run"]
        assert [note.partition(":")[0] for note in notes[:2]] == ["session 1", "session 2"]
    graph = tmp_path / "graph.pb"
    graph_def = tf.GraphDef()
    graph_def.node.add(name="one", op="NoOp")
    write_graph(graph_def, graph)
    shown = tmp_path / "shown.html"
    again = ["inspect", str(graph), "--html", str(shown), "--timeline", str(other)]
    assert main(again) == 0
    assert content_of(shown.read_text())["timeline"]["lanes"]


def test_a_run_without_sessions_has_a_page_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("print('nothing')\n")
    assert (
        start_graph_opt(["run", "--report", "a.html", "none.py"], tmp_path).wait().returncode == 0
    )
    page = (tmp_path / "a.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "TensorFlow was not imported" in page


def test_a_timeline_is_shown_in_a_page_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "-", "--timeline", "steps.json"]) == 2
    assert "--timeline is shown in a page: give --html" in capsys.readouterr().err
