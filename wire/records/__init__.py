"""Record batches: header, records, compression, checksum; one format for the network and the disk.

Nothing is imported here: a broker that only moves batches loads ``batch`` and no codec.
"""
