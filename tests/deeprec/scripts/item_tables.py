# ruff: noqa
# mypy: ignore-errors
EMBEDDING_DIM = WIDTH


def item_table(name, size):
    """One table that the candidate and the histories share."""
    if args.ev and not args.tf:
        """Embedding Variable Feature with get_embedding_variable API"""
        return tf.get_embedding_variable(
            name,
            embedding_dim=EMBEDDING_DIM,
            key_dtype=tf.int64,
            initializer=tf.truncated_normal_initializer(stddev=0.1),
            partitioner=tf.fixed_size_partitioner(num_shards=2),
            ev_option=ev_option(),
        )
    if args.multihash and not args.tf:
        """Multi-Hash Variable"""
        rows = int(size**0.5)
        return tf.get_multihash_variable(
            name, [[rows, EMBEDDING_DIM], [int(size / rows), EMBEDDING_DIM]]
        )
    return tf.get_variable(name, [size, EMBEDDING_DIM])


def looked_up(table, ids):
    if args.emb_fusion and not args.tf:
        return fused_safe_embedding_lookup_sparse(table, ids)
    return tf.nn.safe_embedding_lookup_sparse(table, ids)
