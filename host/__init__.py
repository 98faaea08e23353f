"""What the machine under us offers to the servers that we start on it: its Java, and a cache of its user."""
