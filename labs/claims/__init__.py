"""What people say about multi-worker loading, each claim with the runs that decide it.

A theme (shared_memory.py, seeds.py, ...) is a part of the table: what is said, by whom, the verdict, what to believe
instead, and the function that measures it. What has to happen in a container is in inside/, under the same theme's
name. bench.py gives a measurement its containers and labs; claim.py says what a verdict is; __main__.py is the
command, and side_by_side.py measures many at once.
"""
