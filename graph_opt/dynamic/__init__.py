"""Tables whose rows come and go with their keys.

A table is behind the handle of a stock `VarHandleOp`, in the place of a variable
(ops_src/dynamic/dynamic_table.h). In the user's graph, lookups and updates name keys
(`DynamicTableLookup`, `DynamicTableApply`): the indices of IndexedSlices are keys. In a fused
graph, the group ops take numbers of rows (`passes/fusion/dynamic_rows.py`). Row r of part p of a
table in P parts is numbered r * P + p, which stays right while the parts grow.
"""
