"""The pages of the site: those of docs/, and those that are made from files beside it.

The README is the first page, and four doors lead on from it. Configs and examples have a page for
each folder, and some files have one of their own, to which links lead that leave docs/. The sidebar
shows the navigation.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from tools.docs.api_pages import write_api_pages
from tools.docs.reference import GROUPS

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
FOLDERS: Dict[str, str] = {
    "configs": "Configs, with comments. `graph-opt run --config FILE` reads them, and so does "
    "`graph_opt.load_config(FILE)`.",
    "examples": "Complete scripts, each a single file to copy. They run with graph_opt and without "
    "it (`--mode stock` or `--stock`).",
}
FILES: Dict[str, Tuple[str, str]] = {
    "CHANGELOG.md": ("changelog", "Changelog"),
    "CONTRIBUTING.md": ("contributing", "Contributing"),
    "Dockerfile": ("dockerfile", "Dockerfile"),
    "LICENSE": ("licence", "Licence"),
    "graph_opt/reporting/reports.schema.json": ("json-schema", "JSON schema"),
}
# The pages below each page, in the order of the sidebar. The first level are the four doors: to
# learn, to get something done, to look something up, and to understand it.
NAVIGATION: Dict[str, Sequence[str]] = {
    "index": ("learn", "do", "look-up", "understand"),
    "learn": (
        "get-started",
        "tutorial-dlrm",
        "tutorial-estimator",
        "tutorial-deeprec",
        "tutorial-ranks",
        "examples",
        "tensorflow1",
        "deeprec",
        "sok",
        "distributed-embeddings",
        "strategies",
    ),
    "do": (
        "install",
        "own-script",
        "choose-options",
        "when-it-does-not-pay",
        "configs",
        "measure-staleness",
        "smart-stage",
        "micro-batches",
        "pipelined-updates",
        "shadow-steps",
        "graph-page",
        "production",
        "monitor",
        "debug",
        "sharding",
        "dynamic-tables",
        "group-lookups",
        "serving",
        "security",
        "upgrade",
        "troubleshooting",
    ),
    "look-up": (
        "options",
        "command-line",
        "reference",
        "refusals",
        "errors",
        "optimizers",
        "deeprec-names",
        "releases",
        "json",
        "changelog",
        "licence",
    ),
    "understand": (
        "guarantees",
        "passes",
        "staleness",
        "exact-rows",
        "deferred-updates",
        "how-check-compares",
        "tuned-stages",
        "stage-threads",
        "large-graphs",
        "benchmarks",
        "scaling",
        "architecture",
        "decisions",
        "contributing",
        "development",
    ),
    "command-line": (
        "command-run",
        "command-check",
        "command-cluster",
        "command-proxy",
        "command-rewrite",
        "command-inspect",
        "command-plan",
        "command-export",
        "command-update",
        "command-convert",
        "command-completion",
    ),
    "benchmarks": (
        "benchmarks-servers",
        "benchmarks-ranks",
        "benchmarks-tables",
        "benchmarks-deeprec",
        "benchmarks-serving",
    ),
    "scaling": ("scaling-servers", "scaling-cores"),
    "sharding": ("shard-tables", "sharding-ahead", "sharding-checkpoints", "sharding-failures"),
    "serving": ("exporting", "serving-tables", "serving-repeated", "serving-precision"),
    "dynamic-tables": ("dynamic-rows", "dynamic-columns", "dynamic-checkpoints"),
    "architecture": (
        "architecture-rooms",
        "architecture-passes",
        "architecture-rewrites",
        "architecture-ahead",
        "architecture-tasks",
        "architecture-ops",
        "architecture-tables",
        "architecture-stages",
        "architecture-sessions",
    ),
    "development": ("extending", "testing", "development-releases"),
    "install": ("dockerfile",),
    "json": ("json-schema",),
    "reference": tuple(group.page for group in GROUPS),
}
_LANGUAGES = {
    ".json": "json",
    ".pbtxt": "text",
    ".py": "python",
    ".sh": "bash",
    ".yaml": "yaml",
    "Dockerfile": "docker",
}
_LINK = re.compile(r"(?<=\]\()([\w./-]+)(?=[#)])")


def write_pages(folder: Path) -> None:
    """Writes all pages, and the files that they show, into an empty folder.

    Args:
      folder: Where; it is made anew.
    """
    shutil.rmtree(str(folder), ignore_errors=True)
    shutil.copytree(str(DOCS), str(folder))
    for path in folder.glob("*.md"):
        path.write_text(_LINK.sub(_from_docs, path.read_text("utf-8")), "utf-8")
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    (folder / "index.md").write_text(_LINK.sub(_from_root, readme), "utf-8")
    write_api_pages(folder)
    for name, (page, title) in FILES.items():
        text = (REPOSITORY / name).read_text("utf-8")
        is_page = name.endswith(".md")
        shown = _LINK.sub(_from_root, text) if is_page else _shown(title, [name])
        (folder / (page + ".md")).write_text(shown, "utf-8")
    for name, introduction in FOLDERS.items():
        shown = _shown(name.capitalize(), _files(REPOSITORY / name), introduction)
        (folder / (name + ".md")).write_text(shown, "utf-8")
    for name, pages in NAVIGATION.items():
        with open(str(folder / (name + ".md")), "a", encoding="utf-8") as page_file:
            page_file.write("\n" + _contents(pages))


def _from_docs(link: Any) -> str:
    path = link.group(1)
    if not path.startswith("../"):
        return path
    return "index.md" if path == "../README.md" else _page_of(path[len("../") :])


def _from_root(link: Any) -> str:
    path = link.group(1)
    return path[len("docs/") :] if path.startswith("docs/") else _page_of(path)


def _page_of(path: str) -> str:
    """The page that shows a file, or a folder, beside docs/."""
    return (FILES[path][0] if path in FILES else path.split("/")[0]) + ".md"


def _contents(pages: Sequence[str]) -> str:
    """What puts pages into the sidebar, below the page that it is written on."""
    return "\n".join(["```{toctree}", ":hidden:", "", *pages, "```", ""])


def _files(folder: Path) -> List[str]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _LANGUAGES)
    return [path.relative_to(REPOSITORY).as_posix() for path in paths]


def _shown(title: str, files: Sequence[str], introduction: str = "") -> str:
    """A page that shows files as they are."""
    parts = ["# {}\n\n{}\n".format(title, introduction)]
    for name in files:
        code = (REPOSITORY / name).read_text("utf-8").rstrip()
        language = _LANGUAGES.get(Path(name).suffix or name, "text")
        heading = "" if name == title else "## {}\n\n".format(name)
        parts.append("{}````{}\n{}\n````\n".format(heading, language, code))
    return "\n".join(parts)
