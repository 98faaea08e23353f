"""Fakes of clock, disk, network and ZooKeeper that pass the contract suites of the real ones."""
