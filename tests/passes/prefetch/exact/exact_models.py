"""Small models whose lookups run ahead with exact rows, and short names for what the pass makes."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.passes.prefetch.exact.exact_tables import ExactTables
from tests.passes.one_pass import Passed, ran_pass
from tests.session.test_exact_rows import batches, config, sparse, table

Lookups = Callable[[Dict[str, Any]], List[Any]]
SHORT = {
    "/job:ps/task:": "ps",
    "/job:worker/task:": "worker",
    "/device:CPU:0": "",
    "group_embedding/": "",
}
for number in range(3):
    lookup = "group_embedding/lookup_{}/pooled".format(number)
    SHORT["exact_rows/" + lookup + "/"] = "exact{}/".format(number or "")
    SHORT[lookup] = "pooled{}".format(number or "")
    SHORT["group_embedding/lookup_{}/prepare".format(number)] = "prepare{}".format(number or "")


def bags(name: str = "table", **options: Any) -> Lookups:
    """A pooled lookup of one table."""
    return lambda inputs: [
        tf.nn.safe_embedding_lookup_sparse(table(name, 4, **options), sparse(inputs))
    ]


def single(name: str = "table", **options: Any) -> Lookups:
    """A lookup of one row for each row of the batch."""
    return lambda inputs: [tf.nn.embedding_lookup(table(name, 4, **options), inputs["one"])]


def exact(
    *lookups: Lookups,
    servers: int = 0,
    train: Optional[Callable[[Sequence[Any]], Any]] = None,
    options: Any = None,
    **known: Any,
) -> Passed:
    """Runs `exact_rows` on a model.

    Args:
      *lookups: Its lookups.
      servers: The number of servers that have its tables; 0: they are in the process.
      train: Given the result of each lookup, trains; one step on their sum if None.
      options: The config; None for one thread, a batch ahead, and exact rows.
      **known: See `ran_pass`.
    """
    setter = tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")
    with tf.device(setter) if servers else contextlib.nullcontext():
        inputs = batches(2)
        rows = [tf.reduce_sum(one) for make in lookups for one in make(inputs)]
        (train or trained)(rows)
    tasks = ["/job:ps/task:{}/device:CPU:0".format(number) for number in range(servers)]
    tasks.append("/job:worker/task:0/device:CPU:0")
    made = config(1, 1) if options is None else options
    return ran_pass("exact_rows", made, servers_with_ops=frozenset(tasks), **known)


def limited(**updates: int) -> Any:
    """A config in which rows of some tables may miss so many updates of the nine that rows can."""
    options = config(1, 8, exact=False)
    ahead = options.graph_options.optimizer_options.async_embedding_options
    for table_name, most in updates.items():
        limit = ahead.staleness_limit.add()
        limit.table, limit.updates = table_name, most
    return options


def told(passed: Passed) -> ExactTables:
    """What the pass tells of exact rows."""
    exact_tables = passed.name_map.part(ExactTables)
    assert exact_tables is not None
    return exact_tables


def refusals(passed: Passed) -> List[Tuple[str, str]]:
    """The code and the node of each lookup that stays in main."""
    return [(each.code, each.node) for each in told(passed).refused.values()]


def trained(rows: Sequence[Any]) -> Any:
    """One step that trains all."""
    return tf.train.AdagradOptimizer(0.1).minimize(tf.add_n(list(rows)))


def apart(rows: Sequence[Any]) -> None:
    """A step for each."""
    for one in rows:
        tf.train.AdagradOptimizer(0.1).minimize(one)
