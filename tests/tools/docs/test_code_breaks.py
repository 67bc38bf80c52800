"""Long names in code wrap between their parts, and nothing else changes."""

from __future__ import annotations

from tools.docs.code_breaks import with_code_breaks


def test_names_break_after_their_parts() -> None:
    page = '<a href="a_b.html">a_b</a> <span class="pre">{}</span> <pre>a_b</pre>'
    for name, broken in (
        ("do_async_embedding", "do_<wbr>async_<wbr>embedding"),
        ("tf.train.Saver", "tf.<wbr>train.<wbr>Saver"),
        ("_private", "_private"),
        ("graph.pb", "graph.<wbr>pb"),
        ("...", "..."),
        ("RunOptions(pool_id=)", "RunOptions(<wbr>pool_<wbr>id=)"),
        ("MonitoredSession", "MonitoredSession"),
        ("MonitoredTrainingSession", "Monitored<wbr>Training<wbr>Session"),
        ("SparseApplyCenteredRMSProp", "Sparse<wbr>Apply<wbr>CenteredRMSProp"),
    ):
        assert with_code_breaks(page.format(name)) == page.format(broken)


def test_options_do_not_break_behind_their_hyphens() -> None:
    page = '<span class="pre">--set</span> <span class="pre">a-b</span>'
    assert with_code_breaks(page) == page.replace('"pre">--', '"pre option">--')


def test_short_names_are_marked() -> None:
    code = '<code class="{}"><span class="pre">{}</span> <span class="pre">check</span></code>'
    for first, classes in (("graph-opt", "literal short"), ("x" * 16, "literal")):
        page = code.format("literal", first)
        assert with_code_breaks(page) == code.format(classes, first)


def test_signatures_and_headings_break_as_names_do() -> None:
    for part, broken in (
        (
            '<h2>graph_opt: configs/cluster_of_many.yaml<a class="headerlink">',
            '<h2>graph_opt: configs/<wbr>cluster_<wbr>of_<wbr>many.<wbr>yaml<a class="headerlink">',
        ),
        (
            "<strong>tf.errors.UnauthenticatedError</strong>",
            "<strong>tf.<wbr>errors.<wbr>UnauthenticatedError</strong>",
        ),
        ("<strong>a_b</strong>", "<strong>a_b</strong>"),
        ('<span class="sig-paren">(</span>', '<span class="sig-paren">(</span><wbr>'),
        ('<span class="sig-paren">)</span>', '<span class="sig-paren">)</span>'),
    ):
        assert with_code_breaks(part) == broken
