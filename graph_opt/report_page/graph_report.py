"""The report of a running program: a page to save, and what a notebook shows of it."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from graph_opt.inspect.graph_files import write_text
from graph_opt.report_page.page import page_html
from graph_opt.report_page.page_content import PageSource, page_content
from graph_opt.reporting.cost_text import cost_text
from graph_opt.reporting.summary import summary
from graph_opt.reporting.tables import printable
from graph_opt.reporting.text import report_text

# A notebook keeps what it shows, and each frame is loaded whenever the notebook is opened.
_MOST_SHOWN = 4 << 20
_FRAME = (
    '<iframe sandbox="allow-scripts" title="graph_opt report" width="100%" height="640" '
    'frameborder="0" srcdoc={}></iframe>'
)


class GraphReport:
    """What became of a session's graph; a notebook shows it as a page.

    Args:
      source: What the page is made from. Graphs are not copied: what is added to a live graph later
        is not in the report.

    Example:
      >>> session.graph_report().save("report.html")
    """

    def __init__(self, source: PageSource) -> None:
        self._source = source

    def html(self) -> str:
        """The page, which needs no other file and no network."""
        return page_html(page_content(self._source))

    def save(self, path: Any) -> None:
        """Writes the page.

        Raises:
          tf.errors.PermissionDeniedError: The file cannot be written.
        """
        write_text(self.html(), path)

    def __str__(self) -> str:
        source = self._source
        text = report_text(source.report, source.title)
        return text if source.cost is None else text + "\n\n" + cost_text(source.cost, "cost")

    def _repr_html_(self) -> str:
        """The page in a frame that reaches nothing of the notebook; of a large graph, the text."""
        page = self.html()
        if len(page) <= _MOST_SHOWN:
            return _FRAME.format(quoteattr(page))
        lines = "\n".join(printable(line) for line in str(self).splitlines())
        return (
            "<p>{}. The page has {} MB: save it with save('report.html').</p><pre>{}</pre>".format(
                escape(printable(summary(self._source.report))), len(page) >> 20, escape(lines)
            )
        )
