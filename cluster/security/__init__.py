"""Who a peer is: principals, SASL, TLS, and what they are allowed."""
