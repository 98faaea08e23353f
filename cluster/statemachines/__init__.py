"""What a cluster may do next, decided without I/O: tables, and steps that return the next state or effects."""
