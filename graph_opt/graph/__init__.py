"""A GraphDef as a graph: views, edits and verification. Knows nothing about embeddings."""
