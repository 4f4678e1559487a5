"""The solver: CP-SAT, set so that the same problem has the same answer."""

from ortools.sat.python import cp_model

from merge.grouping import effort
from merge.grouping.effort import SearchAllowance

_READING = 2e-5
"""The seconds that the solver takes to read a constraint."""


def new_solver(seconds: float, seed: int = 1) -> cp_model.CpSolver:
    """A solver for a model that may work for so long."""
    solver = cp_model.CpSolver()
    # One worker: the same problem then always has the same answer, if there is time for it.
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    # Its own measure of its work, by which it stops at the same place however busy the machine is; a second of it takes
    # about one here.
    solver.parameters.max_deterministic_time = seconds
    # Somebody waits.
    solver.parameters.max_time_in_seconds = effort.PATIENCE * seconds
    # Else the solver takes the signal over, and a process that has planned once dies of the next one.
    solver.parameters.catch_sigint_signal = False
    return solver


def solved(model: cp_model.CpModel, solver: cp_model.CpSolver, allowance: SearchAllowance) -> cp_model.CpSolverStatus:
    """What became of a model; what that took is taken off an allowance."""
    status = solver.solve(model)
    # What it takes to read a model is not in the solver's measure.
    allowance.seconds -= solver.response_proto.deterministic_time + _READING * len(model.proto.constraints)
    if status == cp_model.MODEL_INVALID:
        raise RuntimeError(solver.solution_info())
    return status
