"""distributed-embeddings: `distributed_embeddings.python.ops`."""
