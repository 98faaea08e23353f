"""What the controller orders, and which partitions this broker hosts."""
