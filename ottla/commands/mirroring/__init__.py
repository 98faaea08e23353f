"""``ottla mirror-maker``: one cluster's topics copied to another."""
