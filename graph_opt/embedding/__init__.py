"""APIs for building models: lookups in many tables at once.

`group_lookup` has the lookup itself, `column_scope` groups the embedding columns of a model.
"""

from __future__ import annotations
