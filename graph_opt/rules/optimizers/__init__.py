"""How optimizers update tables: one op each, by the specs of `ops_src/optimizers`, or a pattern."""
