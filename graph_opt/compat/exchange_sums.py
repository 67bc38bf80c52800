"""What sums the gradients that ranks send each other: each row comes once, in ascending order."""

from __future__ import annotations

EXCHANGE_SUMS = "ExchangeGatherGrad"
