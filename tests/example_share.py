"""How many random examples a property test costs, as a share of those of Hypothesis' profile."""

from __future__ import annotations

import hypothesis


def example_share(share: float) -> hypothesis.settings:
    """A decorator of a property test: the profile's number of examples, times `share`.

    The profile that counts is the one that is loaded when the test is decorated. A test without
    this decorator takes all of the profile's examples.
    """
    whole = hypothesis.settings().max_examples
    return hypothesis.settings(max_examples=max(1, round(share * whole)))
