"""Which errors of messages only follow from the failure of another rank."""

from __future__ import annotations

import pytest

from graph_opt.sharding.message_errors import is_of_shutdown


@pytest.mark.parametrize(
    "text",
    [
        "Horovod has been shut down. This was caused by an exception on one of the ranks",
        "exchange_ids: [/src/gloo/transport/tcp/pair.cc:598] Connection closed by peer [::1]:26541",
        "[gloo/third_party/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 30000ms",
        "MPI_Alltoallv failed, see MPI output for details.",
    ],
)
def test_messages_that_another_rank_has_broken(text: str) -> None:
    assert is_of_shutdown(text)


@pytest.mark.parametrize(
    "text",
    [
        "rank 1 failed: KeyError: 'no such feature'",
        "cannot read /data/gloo/part-00001: no such file",
        "the ids of rank 0 are not those of a table with 5 rows",
    ],
)
def test_errors_with_a_cause_of_their_own(text: str) -> None:
    assert not is_of_shutdown(text)
