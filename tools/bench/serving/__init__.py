"""How long a request takes, of models as they are exported, stock and with fused lookups."""
