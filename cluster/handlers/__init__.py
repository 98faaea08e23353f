"""One module per API: a decoded request becomes a domain call, and errors become codes here only."""
