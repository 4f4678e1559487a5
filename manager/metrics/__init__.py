"""The manager's metrics for Prometheus.

Each request takes a `snapshot` (`collector`) and makes `samples` of the metrics in the `catalogue`. Only two things are
counted here: `sums` add up job counters, which start again with each start of a job, and `request_counts` has requests.
"""
