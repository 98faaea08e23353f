"""One partition: role, ISR, high watermark, and what it knows of its followers."""
