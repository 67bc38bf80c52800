"""`graph-opt run` with real scripts in real processes."""

from __future__ import annotations

import json
import os
import py_compile
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Dict, List, Optional

import pytest

from graph_opt.cli.main import main
from graph_opt.cli.programs import ProgramError, find_module
from graph_opt.compat import tf
from tests.forked_programs import Ended, start_graph_opt
from tests.release_features import needs_estimators

SCRIPTS = Path(__file__).resolve().parent / "scripts"
REPOSITORY = SCRIPTS.parents[2]
READY = str(REPOSITORY / "configs" / "async_embedding.pbtxt")


def _environment() -> Dict[str, str]:
    return dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", PYTHONPATH=str(REPOSITORY))


def _run(arguments: List[str], folder: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable] + arguments,
        cwd=str(folder),
        env=dict(_environment(), **environment),
        capture_output=True,
        timeout=3000,
        text=True,
        check=False,
    )


def _graph_opt(
    arguments: List[str], folder: Path, **environment: str
) -> subprocess.CompletedProcess:
    return _run(["-m", "graph_opt.cli", "run"] + arguments, folder, **environment)


def _forked(arguments: List[str], folder: Path, **environment: str) -> Ended:
    """The same where TensorFlow's own start does not matter."""
    return start_graph_opt(["run", *arguments], folder, **environment).wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for script in SCRIPTS.glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["view.py", "--config", "x", "-m", "--", "y"],
        pytest.param(["-m", "view", "--set", "a=b", "-o"], marks=pytest.mark.slow),
        ["broken.py"],
        ["failing.py", "exit text"],
        pytest.param(["failing.py", "anything else"], marks=pytest.mark.slow),
        ["failing.py", "interrupt"],
        ["folder", "x"],
        pytest.param(["packed.zip", "x"], marks=pytest.mark.slow),
        ["view.pyc"],
    ],
    ids=" ".join,
)
def test_a_script_sees_and_shows_what_it_does_under_python(
    folder: Path, command: List[str]
) -> None:
    if sys.version_info < (3, 9) and command != ["failing.py", "exit text"]:
        pytest.skip("this Python shows a script's path as it was given, not the absolute one")
    (folder / "broken.py").write_text("import os\n\nif os:\nprint('not indented')\n")
    (folder / "folder").mkdir()
    (folder / "folder" / "__main__.py").write_bytes((folder / "view.py").read_bytes())
    with zipfile.ZipFile(str(folder / "packed.zip"), "w") as packed:
        packed.write(str(folder / "view.py"), "__main__.py")
    py_compile.compile(str(folder / "view.py"), str(folder / "view.pyc"))
    plain = _run(command, folder)
    ours = _graph_opt(command, folder)
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr
    assert ours.returncode == plain.returncode
    if not {"broken.py", "failing.py"} & set(command):
        assert ours.returncode == 7 and "at exit Thing" in ours.stdout
        seen = json.loads(ours.stdout.splitlines()[0])
        assert seen["main"] and not seen["tensorflow"]


def test_a_script_may_come_from_standard_input(folder: Path) -> None:
    command = [sys.executable, "-m", "graph_opt.cli", "run", "-", "x"]
    done = subprocess.run(
        command,
        input="import sys; print(sys.argv, __name__, repr(sys.path[0]))",
        cwd=str(folder),
        env=_environment(),
        stdout=subprocess.PIPE,
        timeout=300,
        text=True,
        check=True,
    )
    assert done.stdout == "['-', 'x'] __main__ ''\n"


@pytest.mark.parametrize("path", ["/first", None])
def test_as_a_function_it_leaves_nothing_to_later_processes(
    folder: Path, path: Optional[str]
) -> None:
    (folder / "script.py").write_text(
        "import os\n"
        "from multiprocessing import spawn\n"
        "asked, path = os.environ['GRAPH_OPT_RUN'], os.environ['PYTHONPATH']\n"
        "print('capacity' in asked, 'on_path' in path, 'graph_opt' in "
        "spawn.get_preparation_data('x'))\n"
        "os.environ.update(OWN='kept', PYTHONPATH=path + os.pathsep + '/last')\n"
        "raise SystemExit(3)\n"
    )
    caller = (
        "import contextlib, os, sys\n"
        "sys.path.append({!r})\n"
        "from multiprocessing import spawn\n"
        "from graph_opt.cli.main import main\n"
        "before, finders = dict(os.environ), list(sys.meta_path)\n"
        "prepare = spawn.get_preparation_data\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main(['run', '--set', 'capacity=4', 'script.py'])\n"
        "print(os.environ['OWN'], os.environ['PYTHONPATH'])\n"
        "del os.environ['OWN'], os.environ['PYTHONPATH']\n"
        "before.pop('PYTHONPATH', None)\n"
        "print(os.environ == before, spawn.get_preparation_data is prepare, "
        "sys.meta_path == finders, 'tensorflow' in sys.modules)\n"
    )
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", caller.format(str(REPOSITORY))],
        cwd=str(folder),
        env=environment if path is None else dict(environment, PYTHONPATH=path),
        stdout=subprocess.PIPE,
        timeout=300,
        text=True,
        check=True,
    )
    left = "/last" if path is None else path + ":/last"
    expected = ["True True True", "kept " + left, "True True True False"]
    assert done.stdout.splitlines() == expected


@pytest.mark.slow
def test_ctrl_c_in_a_training_ends_it_within_seconds(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "graph_opt.cli", "run", "training.py", "--forever"],
        cwd=str(folder),
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    error = process.communicate(timeout=300)[1]
    assert time.monotonic() - sent < 60.0  # On an idle machine it takes about one.
    assert process.returncode == -signal.SIGINT
    assert error.splitlines()[-1] == "KeyboardInterrupt"


@needs_estimators
def test_every_way_of_importing_tensorflow_gives_version_1(folder: Path) -> None:
    done = _forked(["--tf1", "imports.py"], folder)
    assert "graph-opt run:" not in done.stderr  # No notice for those who ask for it.
    assert (done.returncode, done.stdout) == (0, "all imports work\n"), done.stderr


@pytest.mark.parametrize(
    "options, arguments, threads, capacity",
    [
        pytest.param([], [], 1, 2, marks=pytest.mark.slow),
        pytest.param(
            ["--config", READY, "--set", "threads_num=2"], [], 2, 2, marks=pytest.mark.slow
        ),
        (["--set", "capacity=4"], ["--config", "own"], 3, 4),
    ],
)
def test_an_unmodified_training_is_prefetched(
    folder: Path, options: List[str], arguments: List[str], threads: int, capacity: int
) -> None:
    command = options + ["training.py"] + arguments
    done = _forked(command, folder, ASYNC_EMBEDDING_DUMP_GRAPH="true")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "steps 7 same True"
    prefetch = lines.index("b'prefetch' {}".format(threads))
    assert lines[prefetch + 1] == "capacity {}".format(capacity)
    assert "b'io' 1" in lines
    before = (folder / "graph_before_async_embedding.pbtxt").read_text()
    after = (folder / "graph_after_async_embedding.pbtxt").read_text()
    assert before.count('op: "TensorBufferPut"') == 0
    assert after.count('op: "TensorBufferPut"') == 2


def test_settings_can_switch_it_off(folder: Path) -> None:
    done = _forked(["--set", "do_async_embedding=false", "training.py", "--config", "own"], folder)
    assert (done.returncode, done.stdout) == (0, "steps 7 same True\n"), done.stderr


def test_without_inference_a_script_without_a_stage_is_told_to_add_one(folder: Path) -> None:
    done = _forked(["--no-infer-io-stage", "training.py"], folder)
    assert done.returncode == 1
    assert "InvalidArgumentError" in done.stderr and "staged" in done.stderr


@pytest.mark.slow
def test_without_inference_a_script_with_a_stage_is_prefetched(folder: Path) -> None:
    staged = _forked(["--no-infer-io-stage", "training.py", "--config", "staged"], folder)
    assert staged.returncode == 0, staged.stderr
    assert "b'prefetch' 1" in staged.stdout


@pytest.mark.parametrize(
    "script", ["training.py", pytest.param("plain.py", marks=pytest.mark.slow)]
)
def test_a_mistake_in_the_training_loop_leaves_at_once_with_its_traceback(
    folder: Path, script: str
) -> None:
    done = _forked([script, "--fail"], folder)
    assert done.stderr.splitlines()[-1] == "KeyError: 'a mistake in the script'"
    assert done.returncode == 1


def test_flags_and_app_run_work(folder: Path) -> None:
    done = _forked(["plain.py", "--steps", "5"], folder)
    assert (done.returncode, done.stdout) == (0, "['plain.py'] 5 steps 2 stages\n"), done.stderr


@pytest.mark.slow  # the report of a script that spawns is among the quick ones
def test_a_spawned_child_sees_the_same_as_its_parent(folder: Path) -> None:
    done = _graph_opt(["spawning.py"], folder, TF_CPP_MIN_LOG_LEVEL="0")
    expected = "before {}\nin child 2 stages\nin parent 2 stages\n".format(tf.VERSION)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
    assert done.stderr.count("graph-opt run: spawning.py:") == 1
    assert "oneDNN" not in done.stderr  # The script's own setting takes precedence.


def test_a_script_that_imports_sok_finds_it(folder: Path) -> None:
    (folder / "sparse.py").write_text(
        "import sparse_operation_kit as sok\n"
        "import tensorflow as tf\n"
        "sok.init('single')\n"
        "table = sok.Variable([[1.0], [2.0]])\n"
        "rows = sok.all2all_dense_embedding(table, [1, 0])\n"
        "with tf.Session() as session:\n"
        "    session.run(tf.global_variables_initializer())\n"
        "    print(sok.__name__, session.run(rows).tolist(), hasattr(tf, 'staged'))\n"
    )
    done = _forked(["--sok", "sparse.py"], folder)
    assert (done.returncode, done.stdout) == (
        0,
        "graph_opt.sok [[2.0], [1.0]] True\n",
    ), done.stderr


@pytest.mark.slow
def test_an_estimator_trains(folder: Path) -> None:
    done = _forked(["estimator.py", str(folder / "model")], folder)
    assert (done.returncode, done.stdout) == (0, "trained to 5\n"), done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none.py"], "graph-opt run: cannot open script 'none.py': No such file or directory"),
        (["docs/report-graph.png"], "graph-opt run: 'docs/report-graph.png' is no Python script"),
        (["tests"], "graph-opt run: can't find '__main__' module in 'tests'"),
        (["--config", "none.pbtxt", "view.py"], "graph-opt run: none.pbtxt: there is no such conf"),
        (["--config", "tests", "view.py"], "graph-opt run: tests: cannot be read: Is a directory"),
    ],
)
def test_wrong_arguments_are_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: List[str],
    message: str,
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert main(["run", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(message) and error.count("\n") == 1


def test_wrong_options_are_one_line_when_tensorflow_is_imported(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "wrong.pbtxt").write_text("graph_options { optimizer_options { capacitee: 1 } }")
    cases = {
        "threads_num=two: need a whole number": ["--set", "threads_num=two"],
        "wrong.pbtxt:1:37: OptimizerOptions has no": ["--config", str(folder / "wrong.pbtxt")],
    }
    for message, options in cases.items():
        with pytest.raises(SystemExit) as caught:
            main(["run", *options, str(folder / "view.py")])
        error = capsys.readouterr().err
        assert caught.value.code == 2
        assert error.startswith("graph-opt run: ") and error.count("\n") == 1
        assert message in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "-m"],
        ["run", "--"],
        ["rum"],
        ["run", "--tf1", "--no-tf1", "x.py"],
        ["run", "--config", "a", "--config", "b", "x.py"],
        ["inspect", "--config", "a", "--config", "b", "x.pb"],
    ],
)
def test_wrong_usage_gives_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: List[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("graph-opt") and error.count("\n") == 1


@pytest.mark.parametrize("command", [[], ["run"], ["inspect"], ["rewrite"]])
def test_help_and_version_need_no_tensorflow(command: List[str]) -> None:
    program = "import sys; sys.modules['tensorflow'] = None; from graph_opt.cli.main import main; "
    for option in ["--help"] if command else ["--help", "--version"]:
        done = _run(["-c", program + "main({!r})".format([*command, option])], REPOSITORY)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("usage: graph-opt " if option == "--help" else "graph-opt 0")


@pytest.mark.parametrize("name", ["no_such_module", "no.such.module", "json", "_thread", ""])
def test_a_module_that_cannot_run_is_an_error_with_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ProgramError, match="no module named " + name):
        find_module([name])
