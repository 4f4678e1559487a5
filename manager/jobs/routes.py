"""Routes of what runs, most for operators: tasks and DAGs, jobs, streams, hosts, machines and classes, images."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from braid_client.answers.base import ImageName, Page
from braid_client.answers.jobs import (
    HostAnswer,
    ImageAnswer,
    ImageForm,
    JobAnswer,
    MachineAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
    RunningDagAnswer,
    RunningTaskAnswer,
    StreamAnswer,
)
from braid_client.answers.machines import ClassName, MachineClassAnswer, MachineClassForm, RentalAnswer
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady
from manager.rest.bodies import form
from manager.rest.dependencies import Named, Text, TheCaller, TheDataflow, TheId, TheNumberedPage, ThePage, TheService
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1", tags=["running"])
_NamedClass = Annotated[ClassName, Path(description="The name of the class.")]
_NamedImage = Annotated[ImageName, Path(description="The name by which hosts are made from it.")]


@router.get("/running/tasks", **documented(StateNotReady))
def running_tasks(
    service: TheService,
    caller: TheCaller,
    page: TheNumberedPage,
    job: Annotated[Text | None, Query(description="Only those of this job.")] = None,
) -> Page[RunningTaskAnswer]:
    """List the running tasks, by instance. A tenant sees its own, and how many others share them."""
    return service.running.tasks(caller, page, job=job)


@router.get("/running/dags", **documented(Forbidden, StateNotReady))
def running_dags(service: TheService, caller: TheCaller, page: TheNumberedPage) -> Page[RunningDagAnswer]:
    """List the running DAGs; operators only."""
    return service.running.dags(caller, page)


@router.get("/jobs", **documented(Forbidden, StateNotReady))
def jobs(service: TheService, caller: TheCaller, page: TheNumberedPage) -> Page[JobAnswer]:
    """List the jobs, each with its plan and the status that its host reports; operators only."""
    return service.running.jobs(caller, page)


@router.get("/jobs/{job}", **documented(Forbidden, NotFound, StateNotReady))
def job(service: TheService, caller: TheCaller, job: TheId) -> JobAnswer:
    """Show a job; operators only."""
    return service.running.job(caller, job)


@router.get("/streams", **documented(Forbidden, StateNotReady))
def streams(service: TheService, caller: TheCaller, page: TheNumberedPage) -> Page[StreamAnswer]:
    """List the derived streams between jobs; operators only."""
    return service.running.streams(caller, page)


@router.get("/hosts", **documented(Forbidden))
def hosts(service: TheService, caller: TheCaller, page: ThePage) -> Page[HostAnswer]:
    """List the hosts; operators only."""
    return service.running.hosts(caller, page)


@router.get("/machines", **documented(Forbidden, StateNotReady))
def machines(service: TheService, caller: TheCaller, page: ThePage) -> Page[MachineAnswer]:
    """List the machines with the hosts that they carry, and who has copies of these; operators only."""
    return service.machines.page(caller, page)


@router.post("/machines/{machine}/admit", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def admit_machine(
    service: TheService,
    caller: TheCaller,
    machine: Named,
    key: Annotated[Text | None, Query(description="The public key that it must have.")] = None,
) -> MachineAnswer:
    """Admit a machine that waits, so that it carries hosts and gets copies; operators only.

    It is known by its public key from now on. With `key`, it is refused unless the machine has that one.
    """
    return service.machines.admit(caller, machine, key)


@router.post("/machines/{machine}/drain", **documented(Forbidden, NotFound, StateNotReady))
def drain_machine(service: TheService, caller: TheCaller, machine: Named) -> MachineAnswer:
    """Have a machine give up all hosts that it carries, and take none; operators only.

    Each host is stopped once another machine has all its files, and goes on there. `stays` says why one cannot.
    """
    return service.machines.drain(caller, machine)


@router.delete("/machines/{machine}/drain", **documented(Forbidden, NotFound, StateNotReady))
def undrain_machine(service: TheService, caller: TheCaller, machine: Named) -> MachineAnswer:
    """Let a machine take hosts again; operators only. Its own host is handed back to it after a minute."""
    return service.machines.undrain(caller, machine)


@router.delete("/machines/{machine}", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def forget_machine(service: TheService, caller: TheCaller, machine: Named) -> MachineAnswer:
    """Forget a machine that is gone for good; operators only.

    Hosts that it carried alone and that run no job go with it. It is refused while the machine is alive, or has what
    nobody else has. One that comes back is new.
    """
    return service.machines.forget(caller, machine)


@router.get("/machine-classes", **documented(Forbidden))
def machine_classes(service: TheService, caller: TheCaller, page: ThePage) -> Page[MachineClassAnswer]:
    """List the classes of machines that the service may start, each with its machines; operators only."""
    return service.machine_classes.page(caller, page)


@router.put("/machine-classes/{name}", **documented(Conflict, Forbidden, StateNotReady, body=MachineClassForm))
def put_machine_class(
    service: TheService,
    caller: TheCaller,
    name: _NamedClass,
    sent: Annotated[MachineClassForm, Depends(form(MachineClassForm))],
) -> MachineClassAnswer:
    """Set a class of machines, or change it; operators only.

    While there is a machine of it, its cores, tags, image and supply stay. What is rented keeps the price at which it
    was ordered.
    """
    return service.machine_classes.put(caller, name, sent)


@router.delete("/machine-classes/{name}", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def remove_machine_class(service: TheService, caller: TheCaller, name: _NamedClass) -> MachineClassAnswer:
    """Remove a class that no machine is of; operators only."""
    return service.machine_classes.remove(caller, name)


@router.get("/rentals", **documented(Forbidden))
def rentals(service: TheService, caller: TheCaller, page: TheNumberedPage) -> Page[RentalAnswer]:
    """List the machines that the service started by itself, newest first, with what they cost; operators only."""
    return service.rentals.page(caller, page)


@router.get("/images", **documented(Forbidden))
def images(service: TheService, caller: TheCaller, page: ThePage) -> Page[ImageAnswer]:
    """List the registered images, each with its hosts; operators only."""
    return service.images.page(caller, page)


@router.put("/images/{name}", **documented(Forbidden, StateNotReady, body=ImageForm))
def put_image(
    service: TheService, caller: TheCaller, name: _NamedImage, sent: Annotated[ImageForm, Depends(form(ImageForm))]
) -> ImageAnswer:
    """Register an image, or change it; operators only. What is placed from then on goes by it."""
    return service.images.put(caller, name, sent)


@router.delete("/images/{name}", **documented(Forbidden, NotFound, StateNotReady))
def remove_image(service: TheService, caller: TheCaller, name: _NamedImage) -> ImageAnswer:
    """Remove an image; operators only. Its hosts run on, and offer nothing but tags of their own."""
    return service.images.remove(caller, name)


@router.get("/dataflows/{id}/placement", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def explain_placement(
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    task: Annotated[
        Text | None, Query(description="Also say where else this task could be, which no other dataflow uses.")
    ] = None,
) -> PlacementAnswer:
    """Explain where each task of a dataflow runs, what that costs, and what would cost less; operators only."""
    return service.placements.explain(caller, dataflow, task)


@router.get("/dataflows/{id}/placement/pddl", **documented(Conflict, Forbidden, NotFound, StateNotReady))
def export_placement(service: TheService, caller: TheCaller, dataflow: TheDataflow) -> PlacementPddlAnswer:
    """Show the tasks that no other dataflow uses as a planning problem in PDDL; operators only."""
    return service.placements.export(caller, dataflow)


@router.post(
    "/dataflows/{id}/placement/plan",
    **documented(Conflict, Forbidden, NotFound, StateNotReady, body=PlacementPlanForm),
)
def check_placement_plan(
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    sent: Annotated[PlacementPlanForm, Depends(form(PlacementPlanForm))],
) -> PlacementPlanAnswer:
    """Say what a planner's plan for that problem makes of the dataflow, and what it costs; operators only."""
    return service.placements.check_plan(caller, dataflow, sent)
