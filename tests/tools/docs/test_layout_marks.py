"""What the style sheet lays out by its content has a class, and nothing else changes."""

from __future__ import annotations

import pytest

from tools.docs.layout_marks import with_layout_marks

SENTENCE = "a row that was looked up ahead may miss updates"


@pytest.mark.parametrize(
    "cell, marked",
    [
        ("<td><p>in the process</p></td>", "<td><p>in the process</p></td>"),
        (
            "<td><p>{}</p></td>".format(SENTENCE),
            '<td class="prose"><p>{}</p></td>'.format(SENTENCE),
        ),
        ("<th>{}</th>".format(SENTENCE), "<th>{}</th>".format(SENTENCE)),
        ("<td>2.6 (2.4 to 2.9)</td>", '<td>2.6 <span class="whole">(2.4 to 2.9)</span></td>'),
        ("<td>(-0.1 to +2)</td>", '<td><span class="whole">(-0.1 to +2)</span></td>'),
        ("<td>51.1 steps/s</td>", '<td><span class="whole">51.1 steps/s</span></td>'),
        ("<td>3 msgs, 1,024 KiB</td>", '<td>3 msgs, <span class="whole">1,024 KiB</span></td>'),
        ("<th>4 + 15</th>", '<th><span class="whole">4 + 15</span></th>'),
        ("<td>2026-11-28</td>", '<td><span class="whole">2026-11-28</span></td>'),
        ("<p>2026-11-28</p>", "<p>2026-11-28</p>"),
    ],
)
def test_cells_tell_how_they_wrap(cell: str, marked: str) -> None:
    assert with_layout_marks(cell) == marked


@pytest.mark.parametrize(
    "line, marked",
    [
        ("step 50: loss 0.67", '<span class="sentence">step 50: loss 0.67</span>'),
        ("    indented", '<span class="sentence">    indented</span>'),
        (
            "run --set a-b",
            '<span class="sentence">run <span class="option">--set</span> a-b</span>',
        ),
        ("run a \\", '<span class="sentence">run <span class="option">a \\</span></span>'),
        ("lookup  api", "lookup  api"),
        ("lookup  api\nstep", 'lookup  api\n<span class="sentence">step</span>'),
        ("users\n \u2193", "users\n \u2193"),
        ("ids -&gt; rows", "ids -&gt; rows"),
        ("lookup \u2500\u2500> dense", "lookup \u2500\u2500> dense"),
        ("<span>begins", "<span>begins"),
        ("", ""),
    ],
)
def test_lines_of_output_wrap_unless_they_are_of_a_table_or_drawing(line: str, marked: str) -> None:
    block = '<div class="highlight-{} notranslate"><div class="highlight"><pre>{}</pre></div></div>'
    for language in ("none", "text"):
        assert with_layout_marks(block.format(language, line)) == block.format(language, marked)
    assert with_layout_marks(block.format("python", line)) == block.format("python", line)


def test_pictures_lead_to_themselves() -> None:
    picture = '<img alt="Bars" src="_images/train.svg" />'
    assert with_layout_marks(picture) == (
        '<a class="picture" href="_images/train.svg">{}</a>'.format(picture)
    )
