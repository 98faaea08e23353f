"""What each API requires of the access rules, in front of the handlers: see `guards`."""
