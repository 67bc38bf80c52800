"""Links within the site: all lead to a page, a file or an anchor that is there."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import List, Optional, Sequence, Set, Tuple
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: Set[str] = set()
        self.anchors: Set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: Sequence[Tuple[str, Optional[str]]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


class _Site:
    """All pages of a folder."""

    def __init__(self, folder: Path) -> None:
        self.pages = {path: _Page(path) for path in sorted(folder.resolve().rglob("*.html"))}

    def leads_somewhere(self, path: Path, link: str) -> bool:
        """Whether a link of the page at `path` leads to another site, or to what is there."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return True
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not parts.fragment or target not in self.pages:
            return target.exists()
        return unquote(parts.fragment) in self.pages[target].anchors


def dead_links(folder: Path) -> List[str]:
    """Links of a site's pages to what the site does not have, each after the name of its page.

    Args:
      folder: Of the site. Links to other sites are not followed.
    """
    site = _Site(folder)
    return [
        "{}: {}".format(path.relative_to(folder.resolve()), link)
        for path, page in site.pages.items()
        for link in sorted(page.links)
        if not site.leads_somewhere(path, link)
    ]
