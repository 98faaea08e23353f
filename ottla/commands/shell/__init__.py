"""What makes the shell know the commands."""
