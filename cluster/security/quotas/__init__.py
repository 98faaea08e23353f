"""Client quotas: how much a user, a client id or an address may use, and for how long it is held back beyond that."""
