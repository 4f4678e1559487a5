"""The savings of sharing, and the bills, from the CPU that hosts measure.

The `meter` of the leading manager looks every few seconds: `usage` has the dataflows that use each task and job,
`counter_growth` the work between two looks, and `cost_split` divides it. `settlement` turns each minute into shares and
baselines for the `ledger`; `intervals`, `steps` and `bill` add these up for answers, and `saved_cpu` says what sharing
and what packing saved.
"""
