"""How long the tensors are in which lookups and updates of tables on servers travel.

They are laid out as ops_src/packed says: `row_request.h`, `row_update.h` and `packed_bags.h`; which
of rows and bags travels for a table is chosen as `server_pooling.cc` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Tuple

from graph_opt.cost.looked_up_ids import group_inputs, is_sparse, named_lookups
from graph_opt.cost.row_counts import batch, different_ids, number_of_ids
from graph_opt.cost.variable_size import variable_size
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_nodes import BUFFER_TAKE
from graph_opt.rules.op_names import (
    GROUP_PACK,
    GROUP_PREPARE,
    NEXT_SERVED,
    STAGE_SERVED,
    TAKE_SERVED,
)

if TYPE_CHECKING:
    from graph_opt.cost.tensor_sizes import TensorSizes

_WORD = 8
_REQUEST_HEADER = 2
_UPDATE_HEADER = 4
_BAG_HEADER = 5
_FLOAT = 4
# A key, and how often it occurs in four bytes.
_WORDS_OF_KEY = 1.5
_KEYS = (b"key", b"key1000")


class Sent(NamedTuple):
    """What travels for the lookups of one table.

    Attributes:
      shards: In how many shards it is.
      width: Elements of a row.
      element: Bytes of an element.
      ids: Ids of all lookups.
      rows: Different rows, or keys.
      bags: Rows of the batch, for each lookup.
      bag_words: Words of all bags, if bags travel; None if rows do.
      by_key: Whether rows go by key.
    """

    shards: int
    width: int
    element: int
    ids: float
    rows: float
    bags: float
    bag_words: Optional[float]
    by_key: bool

    @property
    def rows_read(self) -> float:
        """How many rows its server reads: of bags, that of each id."""
        return self.rows if self.bag_words is None else self.ids


def packed_length(sizes: TensorSizes, tensor: TensorRef) -> float:
    """Elements of an output of an op of servers' lookups; raises `SizeUnknown`."""
    op = sizes.view.op(tensor.node)
    if op == GROUP_PREPARE:
        return _of_prepare(sizes, tensor)
    if op == GROUP_PACK:
        return sum(_update_bytes(sent) for sent in _sent_to(sizes, tensor.node, tensor.index))
    if op in (STAGE_SERVED, TAKE_SERVED, NEXT_SERVED):
        return sum(_request_words(sent) for sent in sent_by(sizes, tensor))
    return sum(_answered(sent) for sent in sent_by(sizes, sizes.view.inputs(tensor.node)[-1]))


def sent_by(sizes: TensorSizes, request: TensorRef) -> List[Sent]:
    """What a request that a server gets asks for, by table; raises `SizeUnknown`."""
    made = _request_of(sizes, request)
    if made.is_asked:
        return []
    found = _sent_to(sizes, made.tensor.node, made.tensor.index)
    if made.of_bags is None:
        return found
    servers = range(sizes.view.nodes[made.tensor.node].attr["num_servers"].i)
    sent = [each for server in servers for each in _sent_to(sizes, made.tensor.node, server)]
    of_bags = any(each.bag_words is not None for each in sent)
    return found if of_bags == made.of_bags else []


class _Request(NamedTuple):
    """What a server gets.

    Attributes:
      tensor: The output of Prepare.
      of_bags: With exact rows, a server gets it only if bags are asked for (True), or only if all
        servers are asked for rows (False). None: it always does.
      is_asked: Whether the server has got it before, and so gets nothing.
    """

    tensor: TensorRef
    of_bags: Optional[bool] = None
    is_asked: bool = False


def _request_of(sizes: TensorSizes, tensor: TensorRef) -> _Request:
    view = sizes.view
    of_bags: Optional[bool] = None
    is_asked = False
    tensor = view.through_identity(tensor)
    if view.op(tensor.node) == "Switch":
        tensor = view.through_identity(view.inputs(tensor.node)[0])
    if view.op(tensor.node) == TAKE_SERVED:
        of_bags, place = True, tensor.index
        taken = view.through_identity(view.inputs(tensor.node)[0])
        put = sizes.records.put_input(taken) if view.op(taken.node) == BUFFER_TAKE else taken
        tensor = TensorRef((put or taken).node, place)
        # The step before has asked already, but for the first.
        is_asked = _of_lookup(view, NEXT_SERVED, tensor.node) is not None
    if view.op(tensor.node) == NEXT_SERVED:
        staged = _of_lookup(view, STAGE_SERVED, tensor.node)
        of_bags, tensor = True, TensorRef(staged or tensor.node, tensor.index)
    if view.op(tensor.node) == STAGE_SERVED:
        of_bags = of_bags or False
        tensor = view.through_identity(view.inputs(tensor.node)[tensor.index])
    if view.op(tensor.node) != GROUP_PREPARE:
        raise sizes.unknown(tensor, "a request of rows that no {} makes".format(GROUP_PREPARE))
    return _Request(tensor, of_bags, is_asked)


def _of_lookup(view: GraphView, op: str, node: str) -> Optional[str]:
    """The node of an op that is for the same lookup as another."""
    lookup = view.nodes[node].attr["lookup"].s
    return next(
        (name for name in view.of_op(op) if view.nodes[name].attr["lookup"].s == lookup), None
    )


def _of_prepare(sizes: TensorSizes, tensor: TensorRef) -> float:
    servers = sizes.view.nodes[tensor.node].attr["num_servers"].i
    if tensor.index < servers:
        return sum(_request_words(sent) for sent in _sent_to(sizes, tensor.node, tensor.index))
    lookups = range(len(named_lookups(sizes.view, tensor.node)))
    return sum(_ids(sizes, tensor.node, place) + 1 for place in lookups)


def _sent_to(sizes: TensorSizes, node: str, server: int) -> List[Sent]:
    """What travels for each table with shards on a server; raises `SizeUnknown`."""
    attributes = sizes.view.nodes[node].attr
    shards = list(attributes["table_shards"].list.i)
    servers = list(attributes["shard_servers"].list.i)
    found, first = [], 0
    for table, count in enumerate(shards):
        here = servers[first : first + count].count(server)
        first += count
        if here:
            sent = _table(sizes, node, table, count)
            found.append(sent._replace(shards=here, rows=sent.rows * here / count))
    return found


def _table(sizes: TensorSizes, node: str, table: int, shards: int) -> Sent:
    view, attributes = sizes.view, sizes.view.nodes[node].attr
    tables = list(attributes["lookup_tables"].list.i)
    places = [place for place, number in enumerate(tables) if number == table]
    name = attributes["table_names"].list.s[table].decode("utf-8", "replace")
    ids = [_ids(sizes, node, place) for place in places]
    bags = [_bags(sizes, node, place, count) for place, count in zip(places, ids)]
    strategies = list(attributes["partition_strategies"].list.s)
    by_key = bool(strategies) and strategies[table] in _KEYS
    rows = different_ids(sizes, name, sum(ids))
    weights = [bool(attributes["weighted"].list.b[place]) for place in places]
    width, element = width_of(sizes, node, name, table)
    sent = Sent(shards, width, element, sum(ids), rows, sum(bags), None, by_key)
    if by_key or shards > 1 or attributes["pool_on_server"].s == b"never":
        return sent
    id_bytes = _id_bytes(view, name)
    words = sum(
        _BAG_HEADER + bag / _WORD + count * (id_bytes + _FLOAT * weighted) / _WORD
        for bag, count, weighted in zip(bags, ids, weights)
    )
    payload = sum(bags) * (width * element + 1)
    payload += sum(c * (id_bytes + _FLOAT * weighted) for c, weighted in zip(ids, weights))
    if payload < rows * (width * element + _WORD):
        return sent._replace(bag_words=words)
    return sent


def _ids(sizes: TensorSizes, node: str, place: int) -> float:
    ids = group_inputs(sizes.view, node)[place]
    if sizes.ids.tables(ids) and sizes.view.shape(ids) is None:
        return number_of_ids(sizes, ids)
    return sizes.elements(ids)


def _bags(sizes: TensorSizes, node: str, place: int, ids: float) -> float:
    if is_sparse(sizes.view, node, place):
        return batch(sizes, group_inputs(sizes.view, node)[place])
    return ids


def width_of(sizes: TensorSizes, node: str, name: str, table: int) -> Tuple[int, int]:
    """Elements of a row of a fused op's table, and bytes of one; raises `SizeUnknown`."""
    variable = next((each for each in (name, name + "/part_0") if each in sizes.view), None)
    size = None if variable is None else variable_size(sizes.view, variable)
    if size is not None and size.width:
        return size.width, size.element
    widths = sizes.view.attribute(node, "table_widths")
    if widths is None or table >= len(widths.list.i):
        raise sizes.unknown(TensorRef(node, 0), "the width of table {} is not known".format(name))
    return int(widths.list.i[table]), _FLOAT


def _id_bytes(view: Any, name: str) -> int:
    rows = view.nodes[name].attr["shape"].shape.dim[0].size if name in view else 1 << 31
    return 1 if rows <= 1 << 8 else 2 if rows <= 1 << 16 else 4


def _request_words(sent: Sent) -> float:
    header = sent.shards * _REQUEST_HEADER
    if sent.bag_words is not None:
        return header + sent.bag_words
    return header + sent.rows * (_WORDS_OF_KEY if sent.by_key else 1)


def _answered(sent: Sent) -> float:
    return (sent.rows if sent.bag_words is None else sent.bags) * sent.width


def _update_bytes(sent: Sent) -> float:
    header = sent.shards * _UPDATE_HEADER * _WORD
    names = sent.rows if sent.bag_words is None else sent.bag_words
    return header + names * _WORD + _answered(sent) * _FLOAT
