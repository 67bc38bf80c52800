"""`make docs`: writes tables of pages anew, and builds a site of them, with an API reference."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.docs import message_stubs, tables
from tools.docs.code_breaks import with_code_breaks
from tools.docs.layout_marks import with_layout_marks
from tools.docs.links import dead_links
from tools.docs.pages import REPOSITORY, write_pages

SITE = REPOSITORY / "build" / "docs"
PAGES = REPOSITORY / "build" / "docs_pages"


def main() -> None:
    """Updates the tables of docs/, and builds the site in build/docs."""
    tables.main()
    message_stubs.main()
    build(PAGES, SITE)
    print("==> {}".format((SITE / "index.html").relative_to(REPOSITORY)))


def build(pages: Path, site: Path) -> None:
    """Builds the site. A link that leads nowhere ends it with an error.

    Args:
      pages: Where its pages are written before; it is made anew.
      site: Where; it is made anew.
    """
    write_pages(pages)
    shutil.rmtree(str(site), ignore_errors=True)
    settings = str(Path(__file__).parent)
    _run("sphinx", "-q", "-W", "--keep-going", "-c", settings, str(pages), str(site))
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        path.write_text(with_layout_marks(with_code_breaks(text)), "utf-8")
    shutil.copytree(str(pages / "benchmarks"), str(site / "benchmarks"))
    dead = dead_links(site)
    if dead:
        raise SystemExit("\n".join(["links that lead nowhere:", *dead]))


def _run(module: str, *arguments: str) -> None:
    ended = subprocess.run([sys.executable, "-m", module, *arguments], cwd=str(REPOSITORY))
    if ended.returncode:
        raise SystemExit(ended.returncode)


if __name__ == "__main__":
    main()
