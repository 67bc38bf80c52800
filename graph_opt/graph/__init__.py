"""GraphDef as a graph: views, edits, verification. Knows nothing of embeddings."""
