"""The elected controller: one task reads plain events, decides by the state machines, carries out the effects."""
