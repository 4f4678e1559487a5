"""What a manager tells of itself and of all that it sees, as numbers for Prometheus.

Nothing is counted here that is counted elsewhere: a look reads what the manager knows at that moment (`collecting`),
and makes samples of it (`sampling`) of the metrics that there are (`table`). Only what begins anew with each start of a
job is added up (`adding`), so that it goes on rising, and REST counts its own requests (`asked`).
"""
