"""Scripts for TensorFlow 1 and for TensorFlow 2 compute the same as without graph_opt."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from tests.forked_programs import Ended, run_script, start_graph_opt
from tests.quick_cases import slow_but
from tests.release_features import needs_estimators

SCRIPTS = Path(__file__).resolve().parent / "scripts"

VERSION_1 = "import tensorflow as tf\nSession = tf.Session\n"
VERSION_1_UNDER_PYTHON = (
    "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\nSession = tf.Session\n"
)
# Trains with Keras in eager mode, and then opens a graph.
VERSION_2 = """
import tensorflow as tf
tf.random.set_seed(1)
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Embedding(9, 4), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
ids = np.arange(8).reshape(8, 1)
history = model.fit(ids, np.ones([8, 1, 1]), epochs=2, batch_size=4, shuffle=False, verbose=0)
print(history.history["loss"], float(tf.reduce_mean(tf.nn.dropout(tf.ones([999]), 0.1, seed=1))))
Session = tf.compat.v1.Session
"""


def _script(folder: Path, key: str, header: str) -> Path:
    path = folder / (key.replace(" ", "_") + ".py")
    path.write_text((SCRIPTS / "differing.txt").read_text().replace("# HEADER", header))
    return path


def _run_plainly(script: Path) -> Ended:
    return run_script(script, script.parent)


def _run_ours(script: Path) -> Ended:
    return start_graph_opt(["run", script.name], script.parent).wait()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ended]:
    """A function that runs a script with Python or with graph-opt, unless it ran before."""
    folder = tmp_path_factory.mktemp("versions")
    runs = {
        "1 python": (VERSION_1_UNDER_PYTHON, _run_plainly),
        "1 graph-opt": (VERSION_1, _run_ours),
        "2 python": (VERSION_2, _run_plainly),
        "2 graph-opt": (VERSION_2, _run_ours),
    }

    @functools.lru_cache(maxsize=None)
    def output_of(key: str) -> Ended:
        header, run = runs[key]
        return run(_script(folder, key, header))

    return output_of


def _results(done: Ended) -> Dict[str, Any]:
    assert done.returncode == 0, done.stderr
    results: Dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.mark.slow
def test_every_name_of_the_list_differs_between_the_versions(
    output: Callable[[str], Ended],
) -> None:
    old, new = _results(output("1 python")), _results(output("2 python"))
    assert old.keys() == new.keys() and len(old) >= 40
    assert [name for name in old if old[name] == new[name]] == []


@needs_estimators
@pytest.mark.parametrize("version", slow_but(["1", "2"], "1"))
def test_a_script_computes_what_it_does_under_python(
    output: Callable[[str], Ended], version: str
) -> None:
    ours, plain = output(version + " graph-opt"), output(version + " python")
    expected = _results(plain)
    results = _results(ours)
    assert {name: value for name, value in results.items() if value != expected[name]} == {}
    assert ours.stdout == plain.stdout


def test_one_line_says_which_tensorflow_is_shown_and_why(output: Callable[[str], Ended]) -> None:
    said = {
        version: [
            line
            for line in output(version + " graph-opt").stderr.splitlines()
            if line.startswith("graph-opt run: ")
        ]
        for version in "12"
    }
    assert said == {
        "1": [
            "graph-opt run: 1_graph-opt.py:12 uses tf.Session: it is shown TensorFlow 1 "
            "(--no-tf1: TensorFlow as it is)"
        ],
        "2": [
            "graph-opt run: 2_graph-opt.py:13 uses tf.random.set_seed: TensorFlow stays as it is "
            "(--tf1: it is shown TensorFlow 1)"
        ],
    }
