"""The leader's side: appends, fetches and lookups, and the requests that wait."""
