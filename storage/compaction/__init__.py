"""Log compaction: the latest record of each key is kept, older ones are removed.

`cleaner` runs in the broker: it picks the dirtiest log, and swaps finished segments in. `cleaning` does the work, in a
worker process (`worker`), so that the broker's loop and its interpreter lock know nothing of it. They exchange a job
and a result, plain values.
"""
