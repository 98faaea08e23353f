"""Transactions: their coordinator, the markers that end them, and their verification (KIP-98, KIP-890)."""
