"""What pages show, computed from what the client returns."""
