"""One partition: role, ISR, high watermark, and the progress of its followers."""
