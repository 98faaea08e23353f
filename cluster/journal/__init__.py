"""The state-change journal: what happened to a broker and, while it is the controller, to the cluster."""
