"""Commands that run simulated clusters."""
