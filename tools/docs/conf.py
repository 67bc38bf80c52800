"""Sphinx's configuration of the site, which `make docs` builds from the folder of its pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import graph_opt
from tools.docs.docstrings import to_restructured_text, without_addresses

project = "graph_opt"
release = graph_opt.__version__
html_title = "{} {}".format(project, release)
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search_scores.js"))
highlight_language = "none"  # Blocks without a language are output.
html_copy_source = False
html_show_copyright = False
exclude_patterns = ["benchmarks/*.json"]
myst_heading_anchors = 4
myst_enable_extensions = ["tasklist"]
pygments_style = "a11y-light"  # Of at least 4.5 : 1, as monokai is.
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"
autosummary_generate = False  # The pages of names are ours.
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
maximum_signature_line_length = 80
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # Properties have entries of their own.


def setup(app: Any) -> None:
    """Has docstrings rewritten before napoleon reads their sections, and signatures shortened."""
    app.connect("autodoc-process-docstring", to_restructured_text, priority=100)
    app.connect("autodoc-process-signature", without_addresses)
