"""distributed-embeddings: `distributed_embeddings.python.layers`."""
