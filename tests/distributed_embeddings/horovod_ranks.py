"""A rank that trains all cases of `DistributedEmbedding`, and leaves its tables in a folder."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from graph_opt.compat import tf
from graph_opt.sharding.transport_in_use import transport_or_init
from tests.distributed_embeddings.layer_cases import BATCH, CASES, STEPS, adam
from tests.distributed_embeddings.layer_ranks import trained_on_rank


def main() -> None:
    tf.disable_v2_behavior()
    folder = Path(sys.argv[1])
    transport = transport_or_init()
    for name, case in CASES.items():
        held = trained_on_rank(case, transport, STEPS, BATCH, adam)
        (folder / "{}_{}".format(name, transport.rank)).write_bytes(pickle.dumps(held))
    print("rank {} is done".format(transport.rank))


if __name__ == "__main__":
    main()
