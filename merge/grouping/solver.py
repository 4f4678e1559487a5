"""The solver: CP-SAT, set so that the same problem has the same answer."""

from ortools.sat.python import cp_model

_SEED = 1
_PATIENCE = 4.0


def new_solver(seconds: float) -> cp_model.CpSolver:
    """A solver for a model that may work for so long."""
    solver = cp_model.CpSolver()
    # One worker: the same problem then always has the same answer, if there is time for it.
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = _SEED
    # Its own measure of its work, by which it stops at the same place however busy the machine is; a second of it takes
    # about one here.
    solver.parameters.max_deterministic_time = seconds
    # Somebody waits.
    solver.parameters.max_time_in_seconds = _PATIENCE * seconds
    # Else the solver takes the signal over, and a process that has planned once dies of the next one.
    solver.parameters.catch_sigint_signal = False
    return solver
