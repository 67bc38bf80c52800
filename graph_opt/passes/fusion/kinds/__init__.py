"""The kinds of tables for which lookups can be fused."""
