"""How long acknowledgements stop when hosts die or brokers hang, and whether a live broker is ever declared dead."""
