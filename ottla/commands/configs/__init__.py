"""Configuration of topics, brokers and loggers."""
