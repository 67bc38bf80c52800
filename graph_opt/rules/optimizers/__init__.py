"""Recognises how optimizers update tables: by the ops that their specs name, or by a pattern."""
