"""The permissions that each API requires, checked before the handlers: see `guards`."""
