"""Links of the site that lead nowhere are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs.links import dead_links


@pytest.mark.parametrize(
    "link, is_dead",
    [
        ("#here", False),
        ("#elsewhere", True),
        ("api/other.html", False),
        ("api/other.html#there", False),
        ("api/other.html#here", True),
        ("api/missing.html", True),
        ("api/", False),
        ("https://example.com/missing.html#here", False),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, is_dead: bool, tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "other.html").write_text('<p id="there"><a href="../index.html">up</a></p>')
    page = '<h1 id="here">a</h1><a class="reference" href="{}">b</a>'.format(link)
    (tmp_path / "index.html").write_text(page + "<script>'<a href=\"missing\">'</script>")
    assert dead_links(tmp_path) == (["index.html: " + link] if is_dead else [])
