"""The requests about machines, and the images that their hosts are made from."""

from manager.answers import (
    ImageAnswer,
    ImageForm,
    MachineAnswer,
    Page,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
)
from manager.client.requests.request import Request, form_body, given, list_request, path_to


def machines() -> Request[Page[MachineAnswer]]:
    """The machines."""
    return list_request("/v1/machines", Page[MachineAnswer])


def admit_machine(name: str, key: str | None) -> Request[MachineAnswer]:
    """Admit a machine that waits."""
    path = path_to("machines", name, "admit")
    return Request(method="POST", path=path, query=given(key=key), answer=MachineAnswer)


def drain_machine(name: str) -> Request[MachineAnswer]:
    """Have a machine give up its hosts."""
    return Request(method="POST", path=path_to("machines", name, "drain"), answer=MachineAnswer)


def undrain_machine(name: str) -> Request[MachineAnswer]:
    """Let a machine take hosts again."""
    return Request(method="DELETE", path=path_to("machines", name, "drain"), answer=MachineAnswer)


def forget_machine(name: str) -> Request[MachineAnswer]:
    """Forget a machine that is gone for good."""
    return Request(method="DELETE", path=path_to("machines", name), answer=MachineAnswer)


def images() -> Request[Page[ImageAnswer]]:
    """The registered images."""
    return list_request("/v1/images", Page[ImageAnswer])


def put_image(name: str, form: ImageForm) -> Request[ImageAnswer]:
    """Register or change an image."""
    return Request(method="PUT", path=path_to("images", name), answer=ImageAnswer, body=form_body(form))


def remove_image(name: str) -> Request[ImageAnswer]:
    """Remove an image."""
    return Request(method="DELETE", path=path_to("images", name), answer=ImageAnswer)


def explain_placement(dataflow: str, task: str | None) -> Request[PlacementAnswer]:
    """Where a dataflow runs, and why."""
    return Request(path=path_to("dataflows", dataflow, "placement"), query=given(task=task), answer=PlacementAnswer)


def export_placement(dataflow: str) -> Request[PlacementPddlAnswer]:
    """The placement of a dataflow as PDDL."""
    return Request(path=path_to("dataflows", dataflow, "placement", "pddl"), answer=PlacementPddlAnswer)


def check_placement_plan(dataflow: str, form: PlacementPlanForm) -> Request[PlacementPlanAnswer]:
    """What a plan makes of a dataflow."""
    path = path_to("dataflows", dataflow, "placement", "plan")
    return Request(method="POST", path=path, answer=PlacementPlanAnswer, body=form_body(form))
