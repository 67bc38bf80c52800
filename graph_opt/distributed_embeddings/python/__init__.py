"""distributed-embeddings: `distributed_embeddings.python`, as its scripts import it."""
