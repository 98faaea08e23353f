"""The follower's side: fetchers, their sessions, truncation."""
