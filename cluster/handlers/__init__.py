"""One module per API: a decoded request becomes a domain call, its result the response; errors become codes here only."""
