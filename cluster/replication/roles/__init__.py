"""The controller's orders, and the partitions that this broker hosts."""
