"""Dumps of tables that give rows to keys, and of static ones, are the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graph_opt import sok
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from tests.sok.test_dump_load import VALUES, eagerly


def hashed(transport: Transport, rows: int) -> Any:
    """A table of release 1, in which keys have rows once they were looked up."""
    layer = sok.All2AllDenseEmbedding(16 // transport.size, 2, 1, 1, embedding_initializer="zeros")
    table = layer.embedding_variable
    keys = np.array([10**12 + key for key in range(rows)] if rows == 3 else range(rows))
    sok.assign(table, keys, VALUES[:rows] + 1, check_ownership=False)
    return table


def test_static_tables_and_those_that_grow_read_each_others_files(tmp_path: Path) -> None:
    def check(transport: Transport) -> None:
        grown = hashed(transport, 11)
        sok.dump(tmp_path, grown)
        name = grown.name.split(":")[0]
        static = sok.Variable(np.zeros_like(VALUES), name=name)
        sok.load(tmp_path, static)
        keys, rows = sok.export(static)
        np.testing.assert_array_equal(rows, VALUES[keys.numpy()] + 1)
        sok.assign(grown, [transport.rank + 12], [[1.0, 1.0]])
        sok.load(tmp_path, grown, mode="merge")
        assert transport.rank + 12 in sok.export(grown)[0].numpy()
        sok.load(tmp_path, grown)
        assert sorted(sok.export(grown)[0].numpy()) == sorted(keys.numpy())
        sok.dump(tmp_path, static)
        sok.assign(grown, keys, np.zeros([len(keys), 2]))
        sok.load(tmp_path, grown)
        keys, rows = sok.export(grown)
        np.testing.assert_array_equal(rows, VALUES[keys.numpy()] + 1)

    run_ranks(2, eagerly(check))
