"""Commands that look at logs, brokers, znodes and journals."""
