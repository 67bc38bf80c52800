"""Shards large tables of an unmodified Horovod script across its ranks."""
