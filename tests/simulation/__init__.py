"""Jobs, spools and bridges in one thread, where a seed decides what happens next, and reconfigurations of their tasks.

Every schedule ends with a history, which `tests.serialisability` judges. `graphs.py` draws what jobs run, `world.py`
runs their batches, `schedules.py` plays one seed and judges it. When which job switches is decided in `schedulers.py`,
`markers.py` and `fries.py`; `defects.py` has schedulers that get it wrong. `machines/` is a simulation of its own, of
machines that fail.
"""
