"""Everything specific to Spark: its session and its Java, the source that reads spools, and the task of a batch."""
