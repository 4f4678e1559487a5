"""The slot model: a grouping problem in CP-SAT, exactly; and the solver, set so that answers can be repeated.

Groups are slots, in an order in which streams only lead onwards, so that no groups can wait for each other. A node is
at a slot if it is up to that slot, and not up to the one before; so said, the order of streams is implied by clauses.
"""

from collections.abc import Iterable
from itertools import combinations, pairwise

from ortools.sat.python import cp_model

from merge.grouping import problem
from merge.grouping.layout import NANOCORES, ROOM, NodeLayout
from merge.grouping.partition import NEW, Partition, ordered
from merge.grouping.problem import SearchAllowance

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
    solver.parameters.max_time_in_seconds = problem.PATIENCE * seconds
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


Literal = cp_model.IntVar


class SlotModel:
    """A problem in CP-SAT with so many slots, and what its answers mean."""

    def __init__(self, layout: NodeLayout, slots: int, *, with_costs: bool = True) -> None:
        """Lay out what can be decided, and what it costs; without costs, any valid groups are an answer."""
        self.layout = layout
        self.solver_model = cp_model.CpModel()
        self._slots = range(slots)
        self._new = self.solver_model.new_bool_var
        self._upto: list[list[cp_model.LiteralT]] = []
        self._at = [self._positions() for _ in range(layout.nodes)]
        self._runs = [self._any(self._at[node][k] for node in range(layout.nodes)) for k in self._slots]
        self._images = [[self._new("") for _ in layout.images] for _ in self._slots]
        self._orders()
        self._offers()
        self._keeps_owners_apart()
        self._bounds_work()
        self._keeps_present_apart()
        self._loads = self._loaded()
        self._bounds_loads()
        if with_costs:
            self.cost = sum((*self._batches(), *self._bridges(), *self._hosts(), *self._latency()))
            self.solver_model.minimize(self.cost)

    def hint(self, partition: Partition) -> None:
        """Begin with a partition."""
        groups = ordered(partition)
        for node in range(self.layout.nodes):
            slot = groups.index(partition.group_of[node])
            for k in self._slots:
                self.solver_model.add_hint(self._at[node][k], k == slot)
        for k in self._slots:
            for image, literal in enumerate(self._images[k]):
                self.solver_model.add_hint(literal, k < len(groups) and partition.image[groups[k]] == image)

    def exclude(self, partition: Partition) -> None:
        """Have the nodes cut otherwise: some that are together apart, or some that are apart together."""
        model, ways = self.solver_model, []
        firsts = []
        for nodes in map(sorted, partition.members.values()):
            firsts.append(nodes[0])
            for one, other in pairwise(nodes):
                apart = self.cut(one, other)
                for k in self._slots:
                    model.add_bool_or([~apart, ~self._at[one][k], ~self._at[other][k]])
                ways.append(apart)
        for one, other in combinations(firsts, 2):
            together = self._new("")
            for k in self._slots:
                model.add_bool_or([~together, ~self._at[one][k], self._at[other][k]])
            ways.append(together)
        model.add_bool_or(ways)

    def partition(self, solver: cp_model.CpSolver) -> Partition:
        """What the solver found."""
        partition = Partition(self.layout)
        for k in self._slots:
            nodes = [node for node in range(self.layout.nodes) if solver.boolean_value(self._at[node][k])]
            if nodes:
                anchor = next((node for node in nodes if node >= self.layout.count), None)
                group = partition.move(nodes, NEW if anchor is None else partition.group_of[anchor])
                images = [at for at, literal in enumerate(self._images[k]) if solver.boolean_value(literal)]
                partition.set_image(group, images[0])
        return partition

    def _positions(self) -> list[cp_model.IntVar]:
        model, last = self.solver_model, self._slots[-1]
        at = [self._new("") for _ in self._slots]
        upto: list[cp_model.LiteralT] = [*(self._new("") for _ in self._slots[:-1]), True]
        model.add_exactly_one(at)
        for k in self._slots:
            before = upto[k - 1] if k else False
            # At a slot is up to it, and not up to the one before.
            if k < last:
                model.add_implication(at[k], upto[k])
                if k:
                    model.add_implication(before, upto[k])
            if k:
                model.add_implication(at[k], ~before)
                model.add_bool_or([at[k], before, *([] if k == last else [~upto[k]])])
            elif k < last:
                model.add_implication(upto[k], at[k])
        self._upto.append(upto)
        return at

    def _any(self, literals: Iterable[cp_model.IntVar]) -> cp_model.IntVar:
        any_holds, every = self._new(""), list(literals)
        self.solver_model.add_bool_or([*every, ~any_holds])
        for literal in every:
            self.solver_model.add_implication(literal, any_holds)
        return any_holds

    def _orders(self) -> None:
        model, layout = self.solver_model, self.layout
        for node in range(layout.nodes):
            for child in layout.children[node]:
                for k in self._slots[:-1]:
                    model.add_implication(self._upto[child][k], self._upto[node][k])
        for k in self._slots[1:]:
            # Slots that are not needed are the last ones.
            model.add_implication(self._runs[k], self._runs[k - 1])

    def _offers(self) -> None:
        layout, everywhere = self.layout, (1 << len(self.layout.images)) - 1
        for k in self._slots:
            self.solver_model.add_exactly_one(self._images[k])
            for mask in sorted(set(layout.masks) - {everywhere}):
                offering = [self._images[k][image] for image in layout.images_in(mask)]
                for node in range(layout.nodes):
                    if layout.masks[node] == mask:
                        self.solver_model.add_bool_or([*offering, ~self._at[node][k]])

    def _keeps_owners_apart(self) -> None:
        layout = self.layout
        owners = sorted(set(layout.owner) - {""})
        if len(owners) > 1:
            for k in self._slots:
                literals = {owner: self._new("") for owner in owners}
                self.solver_model.add_at_most_one(literals.values())
                for node, owner in enumerate(layout.owner):
                    if owner:
                        self.solver_model.add_implication(self._at[node][k], literals[owner])

    def _bounds_work(self) -> None:
        layout, running = self.layout, range(self.layout.nodes)
        large, most = [node for node in running if layout.work[node] > layout.capacity], max(0, layout.capacity)
        for k in self._slots:
            self.solver_model.add(sum(min(layout.work[node], most) * self._at[node][k] for node in running) <= most)
            for node in large:
                for other in running:
                    if other != node:
                        self.solver_model.add_bool_or([~self._at[node][k], ~self._at[other][k]])

    def _keeps_present_apart(self) -> None:
        layout = self.layout
        anchors = range(layout.count, layout.nodes)
        for k in self._slots:
            self.solver_model.add_at_most_one(self._at[anchor][k] for anchor in anchors)
            for anchor in anchors:
                if not layout.present[anchor - layout.count].takes_more:
                    for node in range(layout.count):
                        self.solver_model.add_bool_or([~self._at[node][k], ~self._at[anchor][k]])

    def _batches(self) -> Iterable[cp_model.LinearExprT]:
        layout = self.layout
        staying = range(layout.count, layout.nodes)
        for k in self._slots:
            if not staying:
                yield layout.batch * self._runs[k]
                continue
            paid = self._new("")
            self.solver_model.add_bool_or([~self._runs[k], paid, *(self._at[node][k] for node in staying)])
            yield layout.batch * paid

    def _bridges(self) -> Iterable[cp_model.LinearExprT]:
        cost = round(self.layout.costs.bridge * NANOCORES)
        if not cost:
            return
        for flow in self.layout.flows:
            children = [child for child in flow.children if child != flow.parent]
            if flow.raw or not children:
                continue
            if len(children) == 1:
                yield cost * self.cut(flow.parent, children[0])
                continue
            for k in self._slots:
                bridge = self._new("")
                for child in children:
                    self.solver_model.add_bool_or([bridge, ~self._at[child][k], self._at[flow.parent][k]])
                yield cost * bridge

    def cut(self, parent: int, child: int) -> cp_model.IntVar:
        """Whether two nodes are in different groups."""
        is_cut = self._new("")
        for k in self._slots:
            self.solver_model.add_bool_or([is_cut, ~self._at[child][k], self._at[parent][k]])
        return is_cut

    def _hosts(self) -> Iterable[cp_model.LinearExprT]:
        model, layout = self.solver_model, self.layout
        everything = sum(layout.work) + layout.batch * len(self._slots)
        for image, price in enumerate(layout.prices):
            if price:
                cores = layout.host_cores(image)
                most = -(-everything // cores)
                hosts = model.new_int_var(0, most, "")
                model.add(cores * (hosts + min(most, layout.images[image].there)) >= self._loads[image] - ROOM)
                yield price * hosts

    def _loaded(self) -> list[cp_model.LinearExprT]:
        """The cores that are taken of each image; nothing where no image has a limit or a price."""
        model, layout = self.solver_model, self.layout
        if not layout.is_limited and not any(layout.prices):
            return []
        loads: list[list[cp_model.LinearExprT]] = [[] for _ in layout.images]
        for node in range(layout.nodes):
            on = {image: self._new("") for image in layout.images_in(layout.masks[node])}
            model.add_exactly_one(on.values())
            for image, literal in on.items():
                loads[image].append(layout.work[node] * literal)
                for k in self._slots:
                    model.add_bool_or([~self._at[node][k], ~self._images[k][image], literal])
                    model.add_bool_or([~self._at[node][k], ~literal, self._images[k][image]])
        for k in self._slots:
            running = [self._new("") for _ in layout.images]
            for image, literal in enumerate(running):
                loads[image].append(layout.batch * literal)
                model.add_implication(literal, self._images[k][image])
            model.add(sum(running) == self._runs[k])
        return [sum(load) for load in loads]

    def _bounds_loads(self) -> None:
        """What images take is within their limits; and what other images leave is taken, which is found sooner said."""
        model, layout = self.solver_model, self.layout
        limits = [limit for limit in layout.limits if limit is not None]
        everything = sum(layout.work) + layout.batch * sum(self._runs)
        for image, limit in enumerate(layout.limits):
            if limit is not None:
                model.add(self._loads[image] <= limit)
                if len(limits) == len(layout.limits):
                    model.add(self._loads[image] >= limit - sum(limits) + everything)

    def _latency(self) -> Iterable[cp_model.LinearExprT]:
        model, layout = self.solver_model, self.layout
        hop, second, pace = round(layout.costs.hop * NANOCORES), layout.costs.second, layout.costs.pace
        if not hop and not second:
            return
        most = sum(round(second * pace * work) for work in layout.work)
        most += (hop + round(second * layout.costs.batch * NANOCORES)) * len(self._slots)
        slowest = model.new_int_var(0, most, "")
        begins, ends = [model.new_int_var(0, most, "") for _ in self._slots], []
        for k in self._slots:
            work = sum(round(second * pace * layout.work[node]) * self._at[node][k] for node in range(layout.nodes))
            ends.append(begins[k] + work + round(second * layout.costs.batch * NANOCORES) * self._runs[k])
            model.add(slowest >= ends[k])
        after = [model.new_int_var(0, most, "") for _ in range(layout.nodes)]
        for parent, child in sorted({(parent, child) for parent, child, raw in layout.streams if not raw}):
            cut = self.cut(parent, child)
            arrival = model.new_int_var(0, most, "")
            model.add(arrival >= after[parent] + hop).only_enforce_if(cut)
            for k in self._slots:
                model.add(begins[k] >= arrival).only_enforce_if(self._at[child][k])
        for node in {parent for parent, _, raw in layout.streams if not raw}:
            for k in self._slots:
                model.add(after[node] >= ends[k]).only_enforce_if(self._at[node][k])
        yield slowest
