"""How the messages of an exchange are written as nodes."""

from __future__ import annotations

from typing import NamedTuple

from graph_opt.graph.op_call import Tensor
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.op_names import ALL_TO_ALL


class Received(NamedTuple):
    """What a rank receives.

    Attributes:
      tensor: The parts from rank 0, 1, ..., one after another.
      splits: int32 [N]. How large each is.
    """

    tensor: Tensor
    splits: Tensor


class Messages(NamedTuple):
    """Writes all-to-all messages.

    Attributes:
      rank: Number of this rank.
      num_ranks: Number of ranks.
      group: Name of an `InProcessGroup`; "" for the ranks of Horovod.
      timeout_millis: Longest wait for the other ranks of such a group; 0 for no limit.
    """

    rank: int
    num_ranks: int
    group: str = ""
    timeout_millis: int = 0

    @property
    def place(self) -> str:
        """What comes before the names of exchanges to make them unique in the process."""
        return "{}/{}/".format(self.group, self.rank) if self.group else ""

    def write(self, writer: NodeWriter, tensor: Tensor, splits: Tensor, name: str) -> Received:
        """Writes a message.

        Args:
          writer: Collects the nodes.
          tensor: The vector that is sent.
          splits: int32 [N]. How much of it goes to rank 0, 1, ...
          name: Name of the message: the same on all ranks, and unique in the graph.
        """
        call = writer.call(
            name,
            ALL_TO_ALL,
            tensor=tensor,
            splits=splits,
            message=name,
            rank=self.rank,
            size=self.num_ranks,
            group=self.group,
            timeout_millis=self.timeout_millis,
        )
        return Received(call.output("received"), call.output("received_splits"))
