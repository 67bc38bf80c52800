"""DeepRec's EmbeddingVariables, under DeepRec's names, as dynamic tables."""
