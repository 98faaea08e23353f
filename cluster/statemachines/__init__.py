"""What a cluster may do next, decided without doing it: pure tables, steps that return effects."""
