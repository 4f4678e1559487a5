"""Plain programs of Spark that are stopped and started for each change, as it is done without Braid.

To compare with. They import no more than such programs need; `program` runs them.
"""
