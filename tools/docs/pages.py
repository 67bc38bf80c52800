"""The pages of the site: those of docs/, and those that are made from files beside it.

The README is the first page. Configs and examples have a page for each folder, and some files have
one of their own, to which links lead that leave docs/. The table of contents is that of the
navigation.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

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
    "LICENSE": ("licence", "Licence"),
    "graph_opt/reporting/reports.schema.json": ("json-schema", "JSON schema"),
}
NAVIGATION: Sequence[Tuple[str, Sequence[str]]] = (
    ("Start", ("get-started", "when-it-does-not-pay")),
    ("Coming from", ("tensorflow1", "deeprec", "sok", "distributed-embeddings", "strategies")),
    (
        "Using it",
        (
            "options",
            "command-line",
            "group-lookups",
            "optimizers",
            "dynamic-tables",
            "sharding",
            "serving",
            "security",
            "examples",
            "configs",
        ),
    ),
    ("When something is odd", ("troubleshooting", "errors", "refusals")),
    ("What was measured", ("benchmarks", "staleness", "scaling", "releases")),
    ("How it works", ("passes", "architecture", "decisions", "development")),
)
_REFERENCE = (
    "# API reference\n\nEvery public name, with its shapes, dtypes, errors and an example: "
    '<a href="api/graph_opt.html">graph_opt</a>.\n'
)
_LANGUAGES = {".py": "python", ".json": "json", ".pbtxt": "text", ".yaml": "yaml", ".sh": "bash"}
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
    (folder / "index.md").write_text(_LINK.sub(_from_root, readme) + _contents(), "utf-8")
    (folder / "reference.md").write_text(_REFERENCE, "utf-8")
    for name, (page, title) in FILES.items():
        is_page = name.endswith(".md")
        shown = (REPOSITORY / name).read_text("utf-8") if is_page else _shown(title, [name])
        (folder / (page + ".md")).write_text(shown, "utf-8")
    for name, introduction in FOLDERS.items():
        shown = _shown(name.capitalize(), _files(REPOSITORY / name), introduction)
        (folder / (name + ".md")).write_text(shown, "utf-8")


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


def _contents() -> str:
    parts = []
    for caption, names in NAVIGATION:
        lines = ["```{toctree}", ":hidden:", ":caption: " + caption, "", *names, "```"]
        parts.append("\n".join(lines))
    others = ["reference", *(page for page, _ in FILES.values())]
    parts.append("\n".join(["```{toctree}", ":hidden:", "", *others, "```"]))
    return "\n\n" + "\n\n".join(parts) + "\n"


def _files(folder: Path) -> List[str]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _LANGUAGES)
    return [path.relative_to(REPOSITORY).as_posix() for path in paths]


def _shown(title: str, files: Sequence[str], introduction: str = "") -> str:
    """A page that shows files as they are."""
    parts = ["# {}\n\n{}\n".format(title, introduction)]
    for name in files:
        code = (REPOSITORY / name).read_text("utf-8").rstrip()
        language = _LANGUAGES.get(Path(name).suffix, "text")
        parts.append("## {}\n\n````{}\n{}\n````\n".format(name, language, code))
    return "\n".join(parts)
