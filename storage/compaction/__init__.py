"""Log compaction: of each key the latest record is kept, older ones go.

`cleaner` runs in the broker: it picks the dirtiest log, and swaps finished segments in. `cleaning` does the work, in a
worker process (`worker`), so that the broker's loop and its interpreter lock know nothing of it. Both speak in a job
and a result, plain values.
"""
