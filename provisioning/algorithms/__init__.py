"""The algorithms of the thesis, pure and a file each: brute force, genetic, greedy, adaptation, look-ahead.

Deployments are made by `brute_force.deployed`, `genetic.deployed` and `greedy.deployed`; what runs is adapted by
`reaction.adapted`, by the averages in `averages` and by `look_ahead.adapted`, each from an outlook.
"""
