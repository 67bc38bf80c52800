"""Which TensorFlow a script was written for, judged by the names it uses."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import pytest

from graph_opt.cli.programs import Source, main_file_of_module
from graph_opt.cli.script_version import Verdict, verdict_of

VERSION_1 = {
    "session": ("import tensorflow as tf\ntf.Session()", "2 uses tf.Session"),
    "placeholder": ("import tensorflow\ntensorflow.placeholder('float')", "2 uses tf.placeholder"),
    "contrib": ("from tensorflow.contrib import slim", "1 uses tf.contrib.slim"),
    "contrib module": ("import tensorflow.contrib.slim as s", "1 uses tf.contrib.slim"),
    "flags": ("import tensorflow as tf\nflags = tf.app.flags", "2 uses tf.app.flags"),
    "name": ("from tensorflow import Session as S", "1 uses tf.Session"),
    "deeper": (
        "from tensorflow import train\ntrain.AdamOptimizer()",
        "2 uses tf.train.AdamOptimizer",
    ),
    "renamed": ("import tensorflow as tf\nt = tf.train\nt.Checkpoint\nt.AdamOptimizer", "4"),
    "argument": (
        "import tensorflow as tf\ntf.nn.dropout(x, keep_prob=0.5)",
        "2 uses tf.nn.dropout(keep_prob=...)",
    ),
    "dimension": ("import tensorflow as tf\ntf.argmax(x, dimension=1)", "2 uses tf.argmax(dim"),
    "partitions": (
        "import tensorflow as tf\ntf.nn.embedding_lookup(t, i, partition_strategy='div')",
        "2 uses tf.nn.embedding_lookup(partition_strategy=...)",
    ),
    "iterator": (
        "import tensorflow as tf\nd = tf.data.Dataset.range(3)\nd.make_one_shot_iterator()",
        "3 uses Dataset.make_one_shot_iterator",
    ),
    "keras session": (
        "from tensorflow.keras import backend as K\nK.get_session()",
        "2 uses tf.keras.backend.get_session",
    ),
    "DeepRec": (
        "import tensorflow as tf\ntf.compat.v1.disable_resource_variables()\n"
        "tf.EmbeddingVariableOption(evict_option=None)",
        "3 uses tf.EmbeddingVariableOption",
    ),
    "DeepRec's optimizer": ("from tensorflow import train\ntrain.AdamAsyncOptimizer()", "2"),
    "in a function": (
        "import tensorflow as tf\ndef f():\n  with tf.variable_scope('a'): pass",
        "3",
    ),
}

AS_IT_IS = {
    "compat": ("import tensorflow.compat.v1 as tf\ntf.placeholder", "1 uses tf.compat.v1"),
    "from compat": ("from tensorflow.compat import v1 as tf\ntf.Session()", "1 uses tf.compat.v1"),
    "graph mode": (
        "import tensorflow as tf\ntf.compat.v1.disable_eager_execution()\ntf.nn.dropout(x, 0.1)",
        "2 uses tf.compat.v1",
    ),
    "replaced": ("import tensorflow as tf\ntf = tf.compat.v1\ntf.Session()", "2 uses tf.compat.v1"),
    "either": (
        "try:\n  import tensorflow.compat.v1 as tf\n  tf.disable_v2_behavior()\n"
        "except ImportError:\n  import tensorflow as tf\ntf.placeholder",
        "2 uses tf.compat.v1",
    ),
    "private switch": (
        "from tensorflow.python.framework.ops import disable_eager_execution",
        "1 uses disable_eager_execution",
    ),
    "DeepRec's names in graph mode": (
        "import tensorflow as tf\ntf.compat.v1.disable_v2_behavior()\ntf.CBFFilter()",
        "2 uses tf.compat.v1",
    ),
    "eager": ("import tensorflow as tf\ntf.random.set_seed(1)", "2 uses tf.random.set_seed"),
    "metric": ("import tensorflow as tf\ntf.metrics.AUC()", "2 uses tf.metrics.AUC"),
    "keras": (
        "import tensorflow as tf\ntf.keras.Sequential([tf.keras.layers.Dense(1)]).fit(x, y)",
        "uses no name that tells the versions apart",
    ),
    "asks first": (
        "import tensorflow as tf\n"
        "if tf.__version__ < '2':\n  tf.set_random_seed(1)\nelse:\n  tf.random.set_seed(1)\n"
        "seed = tf.set_random_seed if hasattr(tf, 'set_random_seed') else None\n"
        "try:\n  tf.enable_eager_execution()\nexcept AttributeError:\n  pass\n",
        "uses no name that tells the versions apart",
    ),
    "nothing": ("print('hello')", "uses no name that tells the versions apart"),
    "other tf": ("import text_format as tf\ntf.Session", "uses no name"),
    "no Python": ("import tensorflow as tf\n%matplotlib inline\ntf.Session", "uses no name"),
    "binary": ("\0\0", "uses no name"),
}


def _verdict(folder: Path, files: Dict[str, str], package: str = "") -> Verdict:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    main = folder / next(iter(files))
    return verdict_of(Source(str(main), main.read_bytes(), package), [str(folder)])


@pytest.mark.parametrize("text, reason", VERSION_1.values(), ids=VERSION_1)
def test_names_that_only_version_1_has_select_it(tmp_path: Path, text: str, reason: str) -> None:
    verdict = _verdict(tmp_path, {"train.py": text})
    assert verdict.version_1
    assert verdict.reason.startswith(str(tmp_path / "train.py") + ":" + reason)


@pytest.mark.parametrize("text, reason", AS_IT_IS.values(), ids=AS_IT_IS)
def test_everything_else_leaves_tensorflow_unchanged(
    tmp_path: Path, text: str, reason: str
) -> None:
    verdict = _verdict(tmp_path, {"train.py": text})
    assert not verdict.version_1
    assert reason in verdict.reason and str(tmp_path / "train.py") in verdict.reason


@pytest.mark.parametrize("modern", ["tf.compat.v1.logging", "tf.random.set_seed(1)"])
def test_a_mixture_is_unchanged_and_both_reasons_are_given(tmp_path: Path, modern: str) -> None:
    text = "import tensorflow as tf\n{}\ntf.placeholder\n".format(modern)
    verdict = _verdict(tmp_path, {"train.py": text})
    assert not verdict.version_1
    assert "train.py:3 uses tf.placeholder, but " in verdict.reason
    assert "train.py:2 uses tf." in verdict.reason


def test_the_nearest_local_module_that_says_something_decides(tmp_path: Path) -> None:
    files = {
        "train.py": "import json, numpy, model\nfrom layers import dense\nmodel.train()",
        "model.py": "import inputs",
        "layers/__init__.py": "",
        "layers/dense.py": "import tensorflow as tf\n\ntf.layers.dense",
        "inputs.py": "import tensorflow.compat.v1 as tf",
    }
    verdict = _verdict(tmp_path, files)
    assert verdict.version_1 and "dense.py:3 uses tf.layers.dense" in verdict.reason
    files["layers/dense.py"] = "import model"
    verdict = _verdict(tmp_path, files)
    assert not verdict.version_1 and "inputs.py:1 uses tf.compat.v1" in verdict.reason
    files["inputs.py"] = "import train"
    assert "uses no name" in _verdict(tmp_path, files).reason


@pytest.mark.parametrize("way", ["from common import tf", "from common import *"])
def test_tensorflow_from_a_local_module_is_tensorflow(tmp_path: Path, way: str) -> None:
    files = {"train.py": way + "\ntf.placeholder", "common.py": "import tensorflow as tf"}
    assert _verdict(tmp_path, files).version_1
    files["common.py"] = "import tensorflow.compat.v1 as tf"
    verdict = _verdict(tmp_path, files)
    assert not verdict.version_1 and "tf.compat.v1" in verdict.reason


def test_modules_are_found_in_folders_of_folders_without_init_files(tmp_path: Path) -> None:
    files = {
        "train.py": "from outer_folder.inner_folder.tables import a\nimport outer_folder.empty.b",
        "outer_folder/inner_folder/tables.py": "import tensorflow as tf\ntf.get_variable",
        "outer_folder/empty/text.txt": "",
    }
    assert _verdict(tmp_path, files).version_1


def test_a_module_is_found_with_its_relatives_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "pack/inner.py": "from . import model\nfrom .deep import nothing",
        "pack/__init__.py": "raise SystemExit('imported')",
        "pack/__main__.py": "from pack import inner",
        "pack/model.py": "import tensorflow as tf\ntf.get_variable",
    }
    assert _verdict(tmp_path, files, "pack").version_1
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main_file_of_module("pack.inner").path == str(tmp_path / "pack/inner.py")
    whole = main_file_of_module("pack")
    assert (whole.path, whole.package) == (str(tmp_path / "pack/__main__.py"), "pack")
    assert verdict_of(whole, [str(tmp_path)]).version_1
    assert main_file_of_module("no.such").text == b""
