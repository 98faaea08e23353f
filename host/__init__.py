"""What the host offers to the servers that we start on it: its Java, and its user's cache folder."""
