"""Coordinators: producer ids now; consumer groups, offsets and transactions are shells around their state machines."""
