"""What the scenarios give for their rounds, computed event by event without tasks, plans and batches."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from workloads.workload import Event

Rounds = Iterable[Mapping[str, Event]]
Left = dict[str, list[dict[str, Any]]]
"""What reaches each sink: the fields that identify an event, and the results."""


def house(rounds: Rounds) -> Left:
    found = []
    for each in rounds:
        reading = each["house"]
        inside, outside = ((reading[name] - 32) / 1.8 for name in ("inside", "outside"))
        if -10 <= inside <= 45:
            ideal = 21 if 6 <= reading["time"].hour < 22 else 17
            power = 180 * (ideal - outside) + 900 * (ideal - inside)
            found.append({"house": reading["house"], "time": reading["time"], "power": max(0, power)})
    return {"out": found}


def highway(rounds: Rounds) -> Left:
    found = []
    for each in rounds:
        vehicle, accident = each["highway.vehicles"], each["highway.accidents"]
        gap = vehicle["ahead_position"] - vehicle["position"]
        distance = accident["site"] - vehicle["position"]
        wanted = 50 + 100 * max(0, 1 - distance / 2000)
        advice = min(36, max(0, vehicle["ahead_speed"] + (gap - wanted) / 10))
        found.append({"reading": vehicle["reading"], "distance": distance, "advice": advice})
    return {"out": found}


def patients(rounds: Rounds) -> Left:
    """A patient in a round is assessed only if the heart rate is plausible."""
    estimates: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 30.0))
    risks: dict[str, list[float]] = defaultdict(list)
    left: Left = {"alarms": [], "means": []}
    for each in rounds:
        patient = each["ward.heart"]["patient"]
        estimate, variance = estimates[patient]
        gain = (variance + 0.5) / (variance + 0.5 + 0.32)
        estimate += gain * (each["ward.movement"]["movement"] - estimate)
        estimates[patient] = estimate, (1 - gain) * (variance + 0.5)
        bpm = each["ward.heart"]["bpm"]
        if not 25 <= bpm <= 230:
            continue
        heart, pressure = _part((bpm - 90) / 60), _part((105 - each["ward.pressure"]["systolic"]) / 30)
        still, gone = _part(1 - estimate / 2), not each["ward.bed"]["in_bed"]
        risk = max(heart * still, still * gone, heart * pressure)
        if risk >= 0.6:
            left["alarms"].append({"patient": patient, "round": each["ward.heart"]["round"], "risk": risk})
        risks[patient].append(risk)
        if len(risks[patient]) == 10:
            left["means"].append({"patient": patient, "risk": sum(risks.pop(patient)) / 10})
    return left


def _part(value: float) -> float:
    return min(1.0, max(0.0, value))


ORACLES = {"house": house, "highway": highway, "patients": patients}
