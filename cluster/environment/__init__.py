"""The world of a broker as ports: time, disk, network, ZooKeeper, randomness."""
