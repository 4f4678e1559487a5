"""The algorithms of the thesis, pure: brute force, genetic, greedy, adaptation in turns, look-ahead.

Deployments are made by `brute_force.deployed`, `genetic.deployed` and `greedy.deployed`; what runs is adapted by
`reaction.adapted`, by the averages in `reaction.BASELINES` and by `look_ahead.adapted`, each from an outlook.
Where all tasks share all cores, `shared_cores` has two to compare with.
"""
