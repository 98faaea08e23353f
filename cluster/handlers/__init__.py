"""One module per API: a decoded request becomes a domain call, and only here do errors become codes."""
