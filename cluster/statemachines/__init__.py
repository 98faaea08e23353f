"""What a cluster may do next, decided without doing it: pure tables and steps that take values and return effects."""
