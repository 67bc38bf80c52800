"""`graph-opt inspect`, `rewrite` and `plan` take graph files of each release."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import pytest

from graph_opt.cli.main import main
from graph_opt.inspect.graph_files import read_graph as read_file
from tests.json_documents import validated
from tests.quick_cases import one_of_each
from tests.releases.archives import expected, graph_bytes
from tests.releases.outcomes import TOTALS
from tests.releases.read import can_be_imported, read_graph

# In each there is something that some releases write in another way than others.
NAMES = (
    "safe_weighted_mean.resource_div",
    "sparse_mean.ref",
    "sparse_mean.resource",
    "embedding_lookup.ref_mod",
    "input_layer_shared.resource",
    "adam.resource",
    "dense_features.ref",
)
BOTH = ["--set", "do_group_embedding=true", "--set", "do_async_embedding=true"]


def printed(arguments: List[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([*arguments, *BOTH, "--json"]) == 0
    return validated(capsys.readouterr().out)


@pytest.mark.parametrize("release, name", one_of_each(list(TOTALS), NAMES))
def test_commands_take_graphs_of_a_release(
    release: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "graph.pb", tmp_path / "out.pb"
    path.write_bytes(graph_bytes(release, name))
    tables = sorted(list(fact.tables) for fact in expected(release, name))
    report = printed(["inspect", str(path)], capsys)
    for lookups in (report["lookups"], report["fused_lookups"]):
        assert sorted(lookup["tables"] for lookup in lookups) == tables
    assert {lookup["outcome"] for lookup in report["lookups"]} == {"moved"}
    assert {lookup["gradient"] for lookup in report["fused_lookups"]} == {"fused"}

    plan = printed(["plan", str(path), "--batch", "8", "--ids-per-row", "3"], capsys)
    assert plan["before"]["rows"] == plan["after"]["rows"] == 24 * len(tables)

    assert main(["rewrite", str(path), "-o", str(output), *BOTH]) == 0
    capsys.readouterr()
    written = read_file(output).graph_def
    assert {node.name for node in read_graph(release, name).node} <= {
        node.name for node in written.node
    }
    assert can_be_imported(written) or not can_be_imported(read_graph(release, name))
    assert len(printed(["inspect", str(output)], capsys)["fused_lookups"]) == len(tables)
