"""The simulator: rates and machines that vary, predictions that err, and what comes of an algorithm among them.

Discrete, seeded and without a clock: the same seeds give the same history. Start with
`provisioning.simulator.simulation`. Tasks are bound by cores, not by the network.
"""
