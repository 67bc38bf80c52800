"""Sphinx's configuration of the site, which `make docs` builds from the folder of its pages."""

project = "graph_opt"
html_title = project
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
highlight_language = "none"  # Blocks without a language are output.
html_copy_source = False
html_show_copyright = False
exclude_patterns = ["benchmarks/*.json"]
myst_heading_anchors = 4
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"
