"""The elected controller: one task that reads plain events, decides with the state machines, and carries effects out."""
