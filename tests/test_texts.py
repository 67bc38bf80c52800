"""What is raised, printed or logged has been formatted."""

from __future__ import annotations

import pytest

from tests.test_repository import every_python_file
from tests.text_checks import unformatted_texts


def test_no_template_is_raised_or_printed() -> None:
    assert [
        "{}:{}".format(path, fault)
        for path in every_python_file()
        for fault in unformatted_texts(path.read_text("utf-8"))
    ] == []


@pytest.mark.parametrize(
    "source, count",
    [
        ("raise ValueError('layer {!r} is lost')", 1),
        ("_LOST = 'layer {} ' 'is lost'\nraise errors.LostError(None, None, _LOST)", 1),
        ("say('{name} is ' + 'lost')", 1),
        ("raise ValueError('layer {!r} is lost'.format(name))", 0),
        ("_LOST = 'layer {}'\nraise ValueError(_LOST.format(name))", 0),
        ("print('{}', {'a': 1}, '{ }')", 1),
    ],
)
def test_a_template_that_is_raised_or_printed_is_found(source: str, count: int) -> None:
    assert len(unformatted_texts(source)) == count
