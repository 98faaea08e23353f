"""Commands about who may do what: access rules and delegation tokens."""
