"""How many ids rows have, and different ones batches, counted in a file of examples."""

from __future__ import annotations

import itertools
import re
from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.cost.assumptions import NumberFor
from graph_opt.cost.counted_graph import counted_graph
from graph_opt.cost.record_files import records_of
from graph_opt.graph.view import GraphView
from graph_opt.report_page.feature_names import FeatureNames
from graph_opt.report_page.id_sources import sources
from graph_opt.rules import find_lookups
from graph_opt.rules.lookup import Lookup

_BATCHES = 4
_MOST_EXAMPLES = 65536


class SampledIds(NamedTuple):
    """What a sample tells, by table.

    Attributes:
      ids_per_row: Ids that a row has on average.
      distinct_share: Different ids of a batch, as a share of its ids.
      notes: What was counted, and for which tables nothing was.
    """

    ids_per_row: Tuple[NumberFor, ...]
    distinct_share: Tuple[NumberFor, ...]
    notes: Tuple[str, ...]


class _Counts:
    """What one feature has in the batches of a sample."""

    def __init__(self) -> None:
        self.ids = 0
        self.different = 0
        self._seen: Set[Any] = set()

    def add(self, values: Sequence[Any]) -> None:
        """Counts the values of one example."""
        self.ids += len(values)
        self._seen.update(values)

    def end_batch(self) -> None:
        """The next example is the first of a batch."""
        self.different += len(self._seen)
        self._seen.clear()


def sampled_ids(graph_def: Any, path: str, batch: int) -> SampledIds:
    """Counts ids in the first batches of a file of `tf.train.Example`.

    Different values of a feature count as different ids: those that hashing puts into one bucket
    make batches a little smaller than this says.

    Args:
      graph_def: The graph; its parsers and datasets say which features its lookups take.
      path: A TFRecord file, packed by gzip if it ends in `.gz`.
      batch: Rows of a batch.

    Raises:
      tf.errors.NotFoundError: There is no such file.
      tf.errors.DataLossError: It is no TFRecord file, or damaged.
      tf.errors.InvalidArgumentError: It holds no examples, or no feature that a lookup takes.
    """
    features = _features_of_tables(graph_def)
    counts, examples = _counted(path, {key for keys in features.values() for key in keys}, batch)
    rows, shares, silent = [], [], []
    for table, keys in features.items():
        found = [counts[key] for key in keys if key in counts]
        if not found or not any(one.ids for one in found):
            silent.append(table)
            continue
        name = re.compile("^{}$".format(re.escape(table)))
        ids = sum(one.ids for one in found)
        rows.append(NumberFor(name, ids / (examples * len(found))))
        shares.append(NumberFor(name, sum(one.different for one in found) / ids))
    if not rows:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "{}: no lookup of the graph takes one of its features by name: say --ids-per-row and "
            "--distinct-share instead of --sample".format(path),
        )
    notes = ["ids are those of {} examples of {}".format(examples, path)]
    if silent:
        more = "" if len(silent) == 1 else " and {} others".format(len(silent) - 1)
        notes.append("the sample says nothing of table {}{}".format(silent[0], more))
    return SampledIds(tuple(rows), tuple(shares), tuple(notes))


def _features_of_tables(graph_def: Any) -> Dict[str, List[str]]:
    view = counted_graph(graph_def).view
    names = FeatureNames(view)
    found: Dict[str, List[str]] = {}
    for lookup in find_lookups(view).lookups:
        keys = _features(view, names, lookup)
        for table in lookup.tables:
            known = found.setdefault(table.name, [])
            known.extend(key for key in keys if key not in known)
    return found


def _features(view: GraphView, names: FeatureNames, lookup: Lookup) -> List[str]:
    quoted = [names.of(tensor) for tensor in sources(view, lookup.ids[0])]
    return [text[1:-1] for text in dict.fromkeys(quoted) if text]


def _counted(path: str, wanted: Set[str], batch: int) -> Tuple[Dict[str, _Counts], int]:
    counts: Dict[str, _Counts] = {}
    most = max(batch, min(_BATCHES * batch, _MOST_EXAMPLES))
    read = 0
    for read, record in enumerate(itertools.islice(records_of(path), most), 1):
        example = _parsed(path, record)
        for key, feature in example.features.feature.items():
            if key in wanted:
                counts.setdefault(key, _Counts()).add(_values(feature))
        if read % batch == 0:
            for one in counts.values():
                one.end_batch()
    for one in counts.values():
        one.end_batch()
    if not read:
        raise tf.errors.InvalidArgumentError(None, None, "{}: it holds no examples".format(path))
    return counts, read


def _values(feature: Any) -> Sequence[Any]:
    kind = feature.WhichOneof("kind")
    return () if kind is None else getattr(feature, kind).value


def _parsed(path: str, record: bytes) -> Any:
    try:
        return tf.train.Example.FromString(record)
    except Exception as error:  # DecodeError, which is another class in each protobuf.
        raise tf.errors.InvalidArgumentError(
            None, None, "{}: a record is no tf.train.Example: {}".format(path, error)
        ) from error
