"""What a dataflow does in one of the finest steps."""

from manager.series.figures import SeriesFigures

ONE = SeriesFigures(
    seconds=15.0,
    events_in=30,
    events_out=15,
    dead=2,
    waiting=4,
    latency_p50=0.1,
    latency_p99=0.5,
    cores=0.25,
    alone=0.5,
)
