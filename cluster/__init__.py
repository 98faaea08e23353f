"""What brokers do together: network, replication, controller, coordinators, and the broker that composes them."""
