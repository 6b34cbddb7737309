"""The signal of this node for others: a small read-only HTTP endpoint, so that a fleet asks each source once.

Loaded only where ``share.listen`` is set. It tells of the grid alone, never of a job.
"""
