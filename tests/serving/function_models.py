"""Models as TensorFlow 2 and Keras save them, with lookups in functions, and requests for them.

`written` runs in a process that has not turned TensorFlow 2 off.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import tensorflow

from graph_opt.compat import tf
from tests.forked_programs import Forked

Arrays = Dict[str, np.ndarray]
ROWS, BUCKETS = 24, 50
WORDS = ["a", "b", "c", "d"]


def write(model: str, folder: Path) -> Arrays:
    """Has another process save a model in `folder / "model"`; returns a request for it."""
    ended = Forked(written, (model, str(folder)), folder).wait()
    assert ended.returncode == 0, ended.stderr
    with np.load(str(folder / "request.npz")) as file:
        return {name: file[name] for name in file.files}


def change(folder: Path) -> str:
    """The prefix of a checkpoint of the module with other values, which a SavedModel has."""
    ended = Forked(written, ("changed", str(folder)), folder).wait()
    assert ended.returncode == 0, ended.stderr
    return str(folder / "changed" / "variables" / "variables")


def written(model: str, folder: str) -> None:
    """Saves a model and a request for it; `changed` is the module with other values."""
    tensorflow.random.set_seed(3)
    if model == "changed":
        module(Path(folder, "changed"), 2.0)
        return
    request = MODELS[model](Path(folder, "model"))
    np.savez(str(Path(folder, "request.npz")), **request)


def embeddings(folder: Path) -> Arrays:
    """A functional Keras model with a layer `Embedding` for each feature, one of lists."""
    keras = tensorflow.keras
    inputs = {name: keras.Input([1], dtype="int64", name=name) for name in ("user", "item", "city")}
    inputs["seen"] = keras.Input([3], dtype="int64", name="seen")
    rows = [
        keras.layers.Flatten()(keras.layers.Embedding(BUCKETS, 8, name="of_" + name)(ids))
        for name, ids in inputs.items()
    ]
    hidden = keras.layers.Dense(8, activation="relu")(keras.layers.Concatenate()(rows))
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
    model.compile("adam", "binary_crossentropy")
    tensorflow.saved_model.save(model, str(folder))
    random = np.random.RandomState(1)
    return {name: random.randint(0, BUCKETS, [ROWS, ids.shape[1]]) for name, ids in inputs.items()}


def columns(folder: Path) -> Arrays:
    """A functional Keras model whose features are columns: hashed, listed, in files and numbers."""
    keras, column = tensorflow.keras, tensorflow.feature_column
    words = folder.parent / "words.txt"
    words.write_text("".join(word + "\n" for word in WORDS))
    categories = [
        column.categorical_column_with_hash_bucket("city", BUCKETS),
        column.categorical_column_with_vocabulary_list("kind", WORDS, num_oov_buckets=2),
        column.categorical_column_with_vocabulary_file("word", str(words), num_oov_buckets=1),
        column.categorical_column_with_identity("item", BUCKETS, default_value=0),
    ]
    dense = [
        *(column.embedding_column(one, 4, combiner="mean") for one in categories),
        column.numeric_column("age"),
    ]
    inputs: Dict[str, Any] = {
        name: keras.Input([2], dtype="string", name=name) for name in ("city", "kind", "word")
    }
    inputs["item"] = keras.Input([1], dtype="int64", name="item")
    inputs["age"] = keras.Input([1], dtype="float32", name="age")
    hidden = keras.layers.Dense(8, activation="relu")(keras.layers.DenseFeatures(dense)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.save(str(folder), save_format="tf")
    random = np.random.RandomState(2)
    texts = np.array([*(word.encode() for word in WORDS), b"", b"?"], "S")
    return {
        **{name: random.choice(texts, [ROWS, 2]) for name in ("city", "kind", "word")},
        "item": random.randint(0, BUCKETS, [ROWS, 1]),
        "age": random.rand(ROWS, 1).astype(np.float32),
    }


class _Ranking(tensorflow.Module):
    """Lookups of ids and of words through a vocabulary, in functions of functions."""

    def __init__(self) -> None:
        super().__init__()
        random = np.random.RandomState(4)
        self.items = _table(random, "items", BUCKETS)
        self.words = _table(random, "words", len(WORDS) + 2)
        self.numbers = tensorflow.lookup.StaticVocabularyTable(
            tensorflow.lookup.KeyValueTensorInitializer(
                WORDS, np.arange(len(WORDS), dtype=np.int64)
            ),
            num_oov_buckets=2,
        )

    @tensorflow.function(
        input_signature=[
            tensorflow.TensorSpec([None, 2], tensorflow.int64, "items"),
            tensorflow.TensorSpec([None], tensorflow.string, "words"),
        ]
    )
    def rank(self, items: Any, words: Any) -> Any:
        tensorflow.debugging.assert_less(
            tensorflow.size(items), 1000, message="too many items", name="few"
        )
        rows = tensorflow.reduce_mean(self._of_items(items), 1)
        of_words = tensorflow.gather(self.words, self.numbers.lookup(words))
        return {"scores": tensorflow.reduce_sum(rows * of_words, 1), "rows": rows}

    @tensorflow.function
    def _of_items(self, items: Any) -> Any:
        return tensorflow.nn.embedding_lookup(self.items, items)


def module(folder: Path, factor: float = 1.0) -> Arrays:
    """A module whose signature is a `tf.function`."""
    made = _Ranking()
    for table in (made.items, made.words):
        table.assign(factor * table)
    tensorflow.saved_model.save(made, str(folder), signatures={"serving_default": made.rank})
    random = np.random.RandomState(5)
    return {
        "items": random.randint(0, BUCKETS, [ROWS, 2]),
        "words": random.choice(np.array([*WORDS, "?"], "S"), ROWS),
    }


def _table(random: np.random.RandomState, name: str, rows: int) -> Any:
    return tensorflow.Variable(random.rand(rows, 8).astype(np.float32), name=name)


MODELS: Dict[str, Callable[[Path], Arrays]] = {
    "embeddings": embeddings,
    "columns": columns,
    "module": module,
}
LOOKUPS = {"embeddings": 4, "columns": 4, "module": 2}


def ops_of(meta_graph: Any) -> List[str]:
    """The ops of a graph and of its functions."""
    graph_def = meta_graph.graph_def
    bodies = [node for one in graph_def.library.function for node in one.node_def]
    return [node.op for node in (*graph_def.node, *bodies)]


def predicted(folder: str, tags: Any, request: Arrays) -> Arrays:
    """What a session predicts of a request."""
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.loader.load(session, list(tags), folder).signature_def[
            "serving_default"
        ]
        feeds = {signature.inputs[name].name: value for name, value in request.items()}
        found: Arrays = session.run(
            {name: one.name for name, one in signature.outputs.items()}, feeds
        )
        return found
