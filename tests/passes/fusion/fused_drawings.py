"""Small models whose inputs are fed, and what fusing their lookups changes, with short names."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from graph_opt.compat import tf
from tests.optimizer_models import STOCK
from tests.passes import fused_models
from tests.passes.drawings import Change
from tests.passes.one_pass import Passed, ran_pass

SHORT: Dict[str, str] = {
    "group_embedding/": "",
    "hyperparameter_": "h",
    "nothing_0/empty": "none",
    "gradients/": "g/",
    "/job:ps/task:": "ps",
    "/job:worker/task:": "worker",
    "/device:CPU:0": "",
}
SHORT.update({"gradients/sum_{}_grad/Tile".format(i): "g{}".format(i) for i in range(4)})


def bag(name: str) -> tf.SparseTensor:
    """Ids of some rows each, which are fed."""
    return tf.SparseTensor(
        tf.placeholder(tf.int64, [None, 2], name + "/places"),
        tf.placeholder(tf.int64, [None], name + "/ids"),
        tf.placeholder(tf.int64, [2], name + "/shape"),
    )


def pooled(table: Any, ids: Any, combiner: str = "sum") -> Any:
    """A safe lookup of bags, or of the bags of this name."""
    ids = bag(ids) if isinstance(ids, str) else ids
    return tf.nn.safe_embedding_lookup_sparse(table, ids, combiner=combiner)


def rows_of(name: str, width: int = 4, **options: Any) -> Any:
    """The pooled rows of a table of its own, of bags of its own."""
    return pooled(fused_models.table(name, width, **options), "of_" + name)


def loss_of(rows: Sequence[Any]) -> Any:
    """A loss in which each result has a gradient of its own."""
    sums = [tf.reduce_sum(one, name="sum_{}".format(i)) for i, one in enumerate(rows)]
    return tf.add_n(sums, name="loss")


def trained(*rows: Any, optimizer: str = "adagrad") -> Any:
    """One step that trains all tables."""
    return STOCK[optimizer]().minimize(loss_of(rows))


def clipped(*rows: Any, optimizer: str = "adagrad") -> Any:
    """The same with gradients that are clipped."""
    made = STOCK[optimizer]()
    return made.apply_gradients(
        [
            (
                tf.IndexedSlices(
                    tf.minimum(one.values, 1.0, name="clipped"), one.indices, one.dense_shape
                ),
                variable,
            )
            for one, variable in made.compute_gradients(loss_of(rows))
        ]
    )


def fused(config: Optional[Any] = None, **known: Any) -> Passed:
    """The pass on the default graph; `known` as for `ran_pass`."""
    return ran_pass("fuse_group_embedding", config or fused_models.config(), **known)


def added(passed: Passed, *starts: str, show: Sequence[str] = ()) -> List[str]:
    """The new nodes but constants, or those of them whose names start with one of these."""
    alone = Change(tf.GraphDef(), tf.GraphDef(node=passed.change.added))
    lines = [line[2:] for line in alone.drawn(SHORT, show) if "Const()" not in line]
    return [line for line in lines if line.startswith(starts or "")]


def changed(passed: Passed, *starts: str) -> List[str]:
    """The nodes of the model whose names start with one of these, as they were and as they are."""
    return [line for line in passed.drawn(SHORT) if line[2:].startswith(starts)]
