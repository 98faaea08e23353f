"""The settings of a broker by subject, each table as text that `cluster.configuration.setting` reads."""
