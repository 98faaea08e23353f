"""Everything at once, from one seed: clients, operators and faults on a simulated cluster, and what must hold."""
