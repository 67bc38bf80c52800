"""`graph-opt inspect`, `plan` and `check` of what `graph-opt export` wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, Tuple

import pytest

import graph_opt
from graph_opt.cli.main import main
from tests.json_documents import validated
from tests.report_page.page_models import content_of
from tests.serving.models_to_serve import MODELS, of_placeholders, save

FUSED, STOCK = ["--tags", "serve,graph_opt"], ["--tags", "serve"]


def told(command: List[str], capsys: pytest.CaptureFixture) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert main(command) == 0
    text: str = capsys.readouterr().out
    return text


def served(folder: Path, name: str = "placeholders", table_dtype: str = "") -> str:
    save(MODELS[name], folder / "model")
    path = str(folder / "served")
    graph_opt.export_fused(str(folder / "model"), path, table_dtype=table_dtype)
    return path


def cells(text: str, first: str) -> List[str]:
    """The cells of the first line of a table whose first cell this is."""
    (line,) = [line for line in text.splitlines() if re.match(re.escape(first) + "  ", line)]
    return re.split("  +", line.strip())


@pytest.mark.parametrize(
    "dtype, stored, size, source",
    [("", "float32", "1.0 KiB", "variables/"), ("int8", "int8", "512 B", "table files")],
)
def test_inspect_shows_the_fused_graph_and_its_tables(
    dtype: str, stored: str, size: str, source: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = served(tmp_path, table_dtype=dtype)
    text = told(["inspect", path], capsys)
    assert "of the graph that serves with fused lookups (tags graph_opt,serve)" in text
    assert cells(text, "tables/f0") == ["tables/f0", "64", "4", stored, size, source, "1"]
    assert text == told(["inspect", path, *FUSED], capsys)
    assert "4 tables, " in text and "GroupEmbeddingLookup" not in text.split("\n")[0]
    stock = told(["inspect", path, *STOCK], capsys)
    assert "tf.nn.safe_embedding_lookup_sparse" in stock and "table files" not in stock
    tables = validated(told(["inspect", path, "--json"], capsys))["served"]
    assert {one["dtype"] for one in tables} == {stored} and len(tables) == 4


@pytest.mark.parametrize("name", sorted(MODELS))
def test_all_tables_are_listed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Shared ones once, and those in parts as one."""
    path = served(tmp_path, name)
    tables = validated(told(["inspect", path, "--json"], capsys))["served"]
    assert len(tables) == 4
    assert sum(table["lookups"] for table in tables) == {"examples": 5}.get(name, 4)
    assert all(table["bytes"] == table["rows"] * table["width"] * 4 for table in tables)


def test_a_page_of_an_export(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path, page = served(tmp_path, table_dtype="int8"), tmp_path / "page.html"
    assert main(["inspect", path, "--html", str(page)]) == 0
    assert "table files" in content_of(page.read_text("utf-8"))["text"]


def rows_of(text: str) -> Tuple[List[str], List[str]]:
    return cells(text, "rows of tables read"), cells(text, "bytes of these rows")


@pytest.mark.parametrize("dtype, size", [("", "4.0 KiB"), ("int8", "2.0 KiB")])
def test_plan_compares_a_request_of_both_graphs(
    dtype: str, size: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = served(tmp_path, table_dtype=dtype)
    command = ["plan", path, "--batch", "32", "--ids-per-row", "2"]
    text = told(command, capsys)
    assert "a step is a request; before: tags serve, after: tags graph_opt,serve" in text
    rows, sizes = rows_of(text)
    assert rows[:3] == ["rows of tables read", "256", "256"]
    assert sizes[:3] == ["bytes of these rows", "4.0 KiB", size]
    assert cells(text, "tables/f0")[-2] == ("table files" if dtype else "variables/")
    alone = told([*command, *FUSED], capsys)
    assert rows_of(alone)[0] == ["rows of tables read", "256"]
    assert rows_of(alone)[1] == ["bytes of these rows", size]
    plan = validated(told([*command, "--json"], capsys))
    assert plan["after"]["ops"] < plan["before"]["ops"] and len(plan["served"]) == 4


def test_check_of_a_folder_needs_requests(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    save(of_placeholders, tmp_path / "model")
    assert main(["check", str(tmp_path / "model")]) == 2
    assert "model: is a SavedModel, not a script: say --requests" in capsys.readouterr().err
    assert main(["check", "--tolerance", "0.1", str(tmp_path / "script.py")]) == 2
    assert "--tolerance is for predictions" in capsys.readouterr().err
