"""The placements of tables for which lookups can be fused."""
