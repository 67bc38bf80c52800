"""Reports rendered as tables and as a picture."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest

from graph_opt.inspect.picture import regions_svg
from graph_opt.reporting.outcomes import (
    FUSED_PART,
    LEFT,
    MOVED,
    STOCK_PART,
    BoundaryTensor,
    FusedLookup,
    LookupOutcome,
    StageReport,
)
from graph_opt.reporting.report import Report
from graph_opt.reporting.summary import summary
from graph_opt.reporting.tables import bytes_text, crossing_text, shape_text, table
from graph_opt.reporting.text import report_text


def _report() -> Report:
    refusal = {"code": "table_shared", "node": "item/read", "need": "<one>", "saw": "two & more"}
    crossing = (
        BoundaryTensor("user/Mean:0", "take:0", "float32", (512, 16), 32768, None),
        BoundaryTensor("ids:0", "take:1", "int64", (None,), None, 8),
        BoundaryTensor("names:0", "take:2", "string", None, None, None),
    )
    return Report(
        lookups=(
            LookupOutcome(
                "user", "tf.nn.embedding_lookup_sparse", ("u_0", "u_1", "u_2"), "mean",
                "user/Mean:0", "/job:ps/task:1", MOVED, "async_embedding",
            ),
            LookupOutcome(
                "item", "tf.nn.embedding_lookup", ("i",), None, "item:0", "", LEFT, "", refusal
            ),
        ),
        stages=(StageReport("async_embedding", "IteratorGetNext", "io", True, 31, crossing),),
        regions={"io": 2, "prefetch": 31, "main": 400},
        warnings=("be careful",),
    )  # fmt: skip


def test_the_text_contains_everything_in_the_report() -> None:
    lines = report_text(_report(), "graph.pb: 433 nodes").splitlines()
    assert lines[0] == "graph.pb: 433 nodes"
    assert lines[2:6] == [
        "region    nodes",
        "io            2",
        "prefetch     31",
        "main        400",
    ]
    user = next(line for line in lines if line.startswith("user "))
    assert "u_0 and 2 more shards" in user and user.split()[-2:] == ["async_embedding", "-"]
    item = next(line for line in lines if line.startswith("item "))
    assert item.split()[-2:] == ["main", "table_shared"]
    stage = next(line for line in lines if line.startswith("stage async_embedding"))
    assert "an IO stage inserted behind IteratorGetNext, 31 nodes, 3 tensors cross" in stage
    assert stage.endswith("32.0 KiB + 8 B a row + 1 of unknown size each step")
    assert any(line.split() == ["ids:0", "int64", "[?]", "8", "B", "a", "row"] for line in lines)
    assert any("table_shared" in line and "saw two & more" in line for line in lines)
    assert lines[-1] == "warning: be careful"


def test_what_a_pass_changed_is_told_wherever_a_report_is() -> None:
    changes = ("2 gathers kept from becoming whole-table reads", "3 tensors travel as one")
    report = dataclasses.replace(_report(), changes=changes)
    for change in changes:
        assert change in report_text(report, "graph").splitlines()
        assert "  " + change in str(report).splitlines()
    without_lookups = Report(changes=changes, left_alone=("because",))
    assert summary(without_lookups) == "; ".join((*changes, "because"))


def test_fused_lookups_have_a_separate_table() -> None:
    refusal = {"code": "optimizer_unknown", "node": "t/update", "need": "one known", "saw": "other"}
    report = Report(
        fused_lookups=(
            FusedLookup("user", "tf.nn.embedding_lookup", ("u",), None, "user:0", "group/node",
                        FUSED_PART, FUSED_PART),
            FusedLookup("item", "tf.nn.embedding_lookup", ("t",), "mean", "item:0", "group/node",
                        FUSED_PART, STOCK_PART, (refusal,)),
            FusedLookup("left", "tf.gather", ("x",), None, "left:0"),
        )
    )  # fmt: skip
    lines = report_text(report, "graph.pb").splitlines()
    user, item, left = (next(x for x in lines if x.startswith(n)) for n in ("user", "item", "left"))
    assert user.split()[-4:] == ["group/node", "fused", "fused", "-"]
    assert item.split()[-4:] == ["group/node", "fused", "stock", "optimizer_unknown"]
    assert left.split()[-4:] == ["itself", "none", "none", "-"]
    assert any("optimizer_unknown" in line and "saw other" in line for line in lines)
    assert "no embedding lookup found" not in lines
    assert summary(report) == (
        "2 of 3 lookups fused into 1 op, updates of 1 table left to TensorFlow, 1 left as it is "
        "(optimizer_unknown)"
    )


def test_an_empty_report_says_so() -> None:
    assert report_text(Report(), "empty") == "empty\n\nno embedding lookup found"


def test_the_picture_is_valid_xml_with_every_region() -> None:
    picture = regions_svg(_report())
    root = ElementTree.fromstring(picture)
    text = " ".join(" ".join(root.itertext()).split())
    for part in ("io 2 nodes", "prefetch 31 nodes", "main 400 nodes", "user", "item (left)"):
        assert part in text
    assert ElementTree.fromstring(regions_svg(Report())) is not None


def test_a_picture_of_many_lookups_stays_readable() -> None:
    many = [
        LookupOutcome("a&b" * 20 + str(i), "api", (), None, "", "", MOVED, "s") for i in range(500)
    ]
    picture = regions_svg(Report(lookups=tuple(many)))
    assert int(ElementTree.fromstring(picture).attrib["height"]) < 1000
    assert "and 471 more" in picture


def test_the_picture_has_the_buffers_and_tables_of_a_rewritten_graph() -> None:
    picture = regions_svg(_report())
    tags = [one.attrib.get("class") for one in ElementTree.fromstring(picture).iter()]
    assert tags.count("buffer") == 4 and tags.count("tables") == 2
    assert "embedding table" in picture and ">rows<" in picture
    plain = regions_svg(dataclasses.replace(_report(), stages=(), lookups=()))
    assert 'class="buffer"' not in plain


@pytest.mark.parametrize(
    "count, text", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 31, "2.0 GiB")]
)
def test_byte_counts_are_human_readable(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_shapes_and_empty_crossings() -> None:
    assert shape_text((None, 3)) == "[?, 3]"
    assert shape_text(None) == "?"
    assert crossing_text(()) == "0 B"
    assert table(["a"], []) == "a"
