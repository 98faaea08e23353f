"""Measurements: Ottla and, where its jars are at hand, Apache Kafka, in alternating rounds of one run."""
