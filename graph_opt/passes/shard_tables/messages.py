"""How the messages of an exchange are written as nodes."""

from __future__ import annotations

import abc
from typing import NamedTuple

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor, attribute_value
from graph_opt.passes.node_writer import NodeWriter

_INT32 = tf.int32.as_datatype_enum
_BFLOAT16 = tf.bfloat16.as_datatype_enum
_HALF = tf.float16.as_datatype_enum


class Received(NamedTuple):
    """What a rank receives.

    Attributes:
      tensor: The parts from rank 0, 1, ..., one after another.
      splits: int32 [N]. How large each is.
    """

    tensor: Tensor
    splits: Tensor


class Messages(abc.ABC):
    """Writes all-to-all messages.

    Attributes:
      rank: Number of this rank.
      num_ranks: Number of ranks.
      place: What comes before the names of exchanges to make them unique in the process.
    """

    place: str = ""

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank = rank
        self.num_ranks = num_ranks

    @abc.abstractmethod
    def write(self, writer: NodeWriter, tensor: Tensor, splits: Tensor, name: str) -> Received:
        """Writes a message.

        Args:
          writer: Collects the nodes.
          tensor: The vector that is sent.
          splits: int32 [N]. How much of it goes to rank 0, 1, ...
          name: Name of the message: the same on all ranks, and unique in the graph.
        """


class HorovodMessages(Messages):
    """Messages through Horovod, whose ranks meet under the last component of a node's name."""

    def write(self, writer: NodeWriter, tensor: Tensor, splits: Tensor, name: str) -> Received:
        """See `Messages`."""
        if tensor.dtype == _BFLOAT16:  # which Horovod does not take
            carrier = _bitcast(writer, name + "_sent", tensor, _HALF)
            received = self.write(writer, carrier, splits, name)
            taken = _bitcast(writer, name + "_taken", received.tensor, _BFLOAT16)
            return received._replace(tensor=taken)
        # Not a call: a process that only plans may lack Horovod's library.
        node = writer.node(
            name,
            "HorovodAlltoall",
            [tensor, splits],
            T=tf.AttrValue(type=tensor.dtype),
            ignore_name_scope=tf.AttrValue(b=True),
            process_set_id=tf.AttrValue(i=0),
            _output_shapes=attribute_value([(None,), (self.num_ranks,)], "list(shape)"),
        )
        return Received(Tensor(node.name, tensor.dtype), Tensor(node.name + ":1", _INT32))


class InProcessMessages(Messages):
    """Messages between ranks that are threads of one process.

    Args:
      group: Name of the `InProcessGroup`.
      rank: Number of this rank.
      num_ranks: Number of ranks.
      timeout_millis: Longest wait for the other ranks; 0 for no limit.
    """

    def __init__(self, group: str, rank: int, num_ranks: int, timeout_millis: int = 0) -> None:
        super().__init__(rank, num_ranks)
        self.place = "{}/{}/".format(group, rank)
        self._group = group
        self._timeout_millis = timeout_millis

    def write(self, writer: NodeWriter, tensor: Tensor, splits: Tensor, name: str) -> Received:
        """See `Messages`."""
        call = writer.call(
            name,
            "InProcessAllToAll",
            tensor=tensor,
            splits=splits,
            group=self._group,
            message=name,
            rank=self.rank,
            size=self.num_ranks,
            timeout_millis=self._timeout_millis,
        )
        return Received(call.output("received"), call.output("received_splits"))


def _bitcast(writer: NodeWriter, suffix: str, tensor: Tensor, to: int) -> Tensor:
    return writer.call(suffix, "Bitcast", input=tensor, type=to).result
