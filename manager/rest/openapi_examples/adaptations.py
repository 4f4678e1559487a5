"""Examples of adaptations."""

from datetime import UTC, datetime

from manager.answers import AdaptationAnswer, AdaptiveTaskAnswer, AlternateAnswer, GuardedStreamAnswer

ADAPTATION = AdaptationAnswer(
    dataflow="d-5f0a41c2b7de",
    policy={"throughput": 0.8, "tolerance": 0.05, "latency": 5.0, "events": {}, "rules": []},
    pinned={"forecast>detail": True},
    tasks=(
        AdaptiveTaskAnswer(
            task="forecast",
            active="average",
            since=datetime(2026, 3, 1, 7, 30, tzinfo=UTC),
            alternates=(
                AlternateAnswer(name="tree", value=1.0, cost=900.0, selectivity=1.0, measured=False, permitted=True),
                AlternateAnswer(name="average", value=0.6, cost=38.2, selectivity=1.0, measured=True, permitted=True),
            ),
        ),
    ),
    streams=(GuardedStreamAnswer(stream="forecast>detail", open=True, rule="(by hand)"),),
    value=0.6,
    throughput=1.0,
    cores_needed=0.04,
    cores=0.7,
    rate=1_040.0,
)
