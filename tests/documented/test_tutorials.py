"""Tutorials print what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documented.page import DOCS
from tests.documented.tutorial import TUTORIALS, follow, lines_not_in
from tests.horovod_processes import NEEDS_HOROVOD

RANKS = "tutorial-ranks"
PAGE = """
Save this as `greet.py`:

```python
import sys
print("hello {}, 2.15 steps of 1.0".format(sys.argv[1]))
```

```
make nothing     # is not run
python greet.py you
cat greet*
```

```text
hello you, 2.15 steps of 1.1
...
import sys
```
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS_HOROVOD if name == RANKS else ()) for name in TUTORIALS]
)
def test_a_tutorial_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    follow(DOCS / (name + ".md"), tmp_path)


def test_every_tutorial_shows_what_is_printed() -> None:
    assert RANKS in TUTORIALS and len(TUTORIALS) > 4
    for name in TUTORIALS:
        assert len(re.findall("^```text$", (DOCS / (name + ".md")).read_text("utf-8"), re.M)) > 1


def test_a_page_is_followed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, "utf-8")
    follow(page, tmp_path)


def test_a_line_that_nothing_printed_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("hello you", "goodbye"), "utf-8")
    with pytest.raises(AssertionError, match="goodbye, 2"):
        follow(page, tmp_path)


def test_a_command_that_fails_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("greet.py you", "greet.py"), "utf-8")
    with pytest.raises(AssertionError, match="IndexError"):
        follow(page, tmp_path)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("step 50: loss 0.68, 12.3 steps/s", "step 50: loss 0.69, 7 steps/s"),
        ("a  table   of 26", "a table of 26\nand more"),
    ],
)
def test_a_line_is_found_again(shown: str, printed: str) -> None:
    assert lines_not_in(shown, printed) == []


@pytest.mark.parametrize("printed", ["step 51: loss 0.68", "step 50: loss 0.18", "step 50"])
def test_a_line_with_other_numbers_is_missed(printed: str) -> None:
    assert lines_not_in("step 50: loss 0.68", printed) == ["step 50: loss 0.68"]
