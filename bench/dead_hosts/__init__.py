"""How long nothing is acknowledged when hosts die or brokers hang, and whether a living one is ever taken for dead."""
