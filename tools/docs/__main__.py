"""`make docs`: builds the documentation as a site, and the API reference beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.docs.pages import REPOSITORY, write_pages

SITE = REPOSITORY / "build" / "docs"
PAGES = REPOSITORY / "build" / "docs_pages"


def main() -> None:
    """Builds the site. A link that leads nowhere ends it with an error."""
    write_pages(PAGES)
    shutil.rmtree(str(SITE), ignore_errors=True)
    settings = str(Path(__file__).parent)
    _run("sphinx", "-q", "-W", "--keep-going", "-c", settings, str(PAGES), str(SITE))
    shutil.copytree(str(PAGES / "benchmarks"), str(SITE / "benchmarks"))
    _run("pdoc", "--docformat", "google", "--output-directory", str(SITE / "api"), "graph_opt")
    print("==> {}".format((SITE / "index.html").relative_to(REPOSITORY)))


def _run(module: str, *arguments: str) -> None:
    ended = subprocess.run([sys.executable, "-m", module, *arguments], cwd=str(REPOSITORY))
    if ended.returncode:
        raise SystemExit(ended.returncode)


if __name__ == "__main__":
    main()
