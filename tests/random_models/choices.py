"""Random models, as plain values: what fails prints as text that a test can give to `@example`."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

from hypothesis import strategies as st

from tests.optimizer_models import ROW_BY_ROW

VOCABULARY = 13  # of every table
TABLES = 3  # at most
# Optimizers under which losses depend on nothing but the order of batches.
STILL = ("sgd_still", "adagrad_still")
OPTIMIZERS = (*ROW_BY_ROW, "adam")


class Table(NamedTuple):
    """One table.

    Attributes:
      width: Of its rows.
      resource: Whether it is a resource variable.
      shards: Its parts.
      strategy: How ids are divided among them.
    """

    width: int = 4
    resource: bool = False
    shards: int = 1
    strategy: str = "div"


class Lookup(NamedTuple):
    """One lookup.

    Attributes:
      table: Its number; counted from the first again, where there are fewer.
      api: The function: rows of single ids, the same that may be fed, sparse, or safe.
      combiner: Of bags.
      weighted: Whether ids of bags have weights.
      default_id: Of empty bags; only of the safe function.
      short: Whether ids are int32.
      empty: Whether bags may be empty; only of the safe function.
      joined: Whether its rows are joined to those of others first.
      read: Whether anything reads its rows.
    """

    table: int = 0
    api: str = "safe"
    combiner: str = "sum"
    weighted: bool = False
    default_id: Optional[int] = None
    short: bool = False
    empty: bool = False
    joined: bool = False
    read: bool = True


class Input(NamedTuple):
    """Where batches come from.

    Attributes:
      source: A kind of iterator, or a queue.
      batch: Rows of a batch.
      steps: How many there are.
      odd: Whether the last is smaller.
      staged: Whether the script itself says where the IO stage is.
      seed: Of the ids.
      again: Whether each step takes another batch from the same source; not from a staged one.
    """

    source: str = "one_shot"
    batch: int = 4
    steps: int = 4
    odd: bool = False
    staged: bool = False
    seed: int = 0
    again: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether two nodes take batches from the source."""
        return self.again and not self.staged


class Model(NamedTuple):
    """A model, and how it is trained.

    Attributes:
      tables, lookups, inputs: See above.
      dense: What becomes of the dense features, one after the other.
      optimizer: Its name.
      clipped: Whether gradients are clipped by their norm.
      grouped: Whether the script has one op of ours do all safe lookups of a partition strategy.
    """

    tables: List[Table]
    lookups: List[Lookup]
    inputs: Input = Input()
    dense: Sequence[str] = ()
    optimizer: str = "adagrad"
    clipped: bool = False
    grouped: bool = False


class Stage(NamedTuple):
    """Where lookups run ahead."""

    threads: int = 1
    capacity: int = 1
    smart: bool = False


TABLE = st.builds(
    Table,
    width=st.integers(1, 5),
    resource=st.booleans(),
    shards=st.sampled_from([1, 1, 2, 3]),
    strategy=st.sampled_from(["div", "mod"]),
)
LOOKUP = st.builds(
    Lookup,
    table=st.integers(0, TABLES - 1),
    api=st.sampled_from(["safe", "sparse", "rows"]),
    combiner=st.sampled_from(["sum", "mean", "sqrtn"]),
    weighted=st.booleans(),
    default_id=st.sampled_from([None, None, 0, 3]),
    short=st.booleans(),
    empty=st.booleans(),
    joined=st.booleans(),
    read=st.sampled_from([True, True, True, False]),
)
INPUT = st.builds(
    Input,
    source=st.sampled_from(["one_shot", "initializable", "reinitializable", "queue"]),
    batch=st.integers(1, 5),
    steps=st.integers(2, 6),
    odd=st.booleans(),
    staged=st.booleans(),
    seed=st.integers(0, 99),
    again=st.sampled_from([False, False, False, True]),
)
DENSE_OPS = (
    *("log", "parse", "join", "draw", "check", "weigh", "scale"),
    *("choose", "loop", "call"),
)
# TensorFlow orders sums and products by the names of nodes where there are three terms, as in two
# draws in a row, or a constant and two factors, as where a weight is scaled.
DENSE = st.lists(st.sampled_from(DENSE_OPS), max_size=3).filter(
    lambda ops: ("draw", "draw") not in zip(ops, ops[1:]) and not {"weigh", "scale"} <= set(ops)
)
STAGE = st.builds(
    Stage, threads=st.sampled_from([1, 2, 4]), capacity=st.integers(1, 3), smart=st.booleans()
)


def models(optimizers: Sequence[str], fed: bool = False) -> Any:
    """A strategy for models that are trained by one of these optimizers.

    Args:
      optimizers: Their names.
      fed: Whether ids may be fed.
    """
    apis = st.sampled_from(["rows", "safe", "sparse", "fed"])
    lookup = st.builds(Lookup._replace, LOOKUP, api=apis) if fed else LOOKUP
    return st.builds(
        Model,
        tables=st.lists(TABLE, min_size=1, max_size=TABLES),
        lookups=st.lists(lookup, min_size=1, max_size=4),
        inputs=INPUT,
        dense=DENSE,
        optimizer=st.sampled_from(sorted(optimizers)),
        clipped=st.booleans(),
        grouped=st.sampled_from([False, False, True]),
    )
