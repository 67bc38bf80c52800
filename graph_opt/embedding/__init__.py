"""Model-building APIs that look up many tables at once.

`group_lookup` is the lookup itself; `column_scope` groups the embedding columns of a model.
"""

from __future__ import annotations
