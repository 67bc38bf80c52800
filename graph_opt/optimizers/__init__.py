"""DeepRec's optimizers, for variables and for dynamic tables."""
