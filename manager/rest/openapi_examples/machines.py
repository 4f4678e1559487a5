"""Examples of machines, and of the images that their hosts are made from."""

from manager.answers import (
    CarriedHostAnswer,
    ImageAnswer,
    MachineAnswer,
    Page,
    PlacedTaskAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlannedGroupAnswer,
    WorthOfMoreAnswer,
)

_HOST = CarriedHostAnswer(
    name="north",
    home="north",
    load=1.25,
    peers=("south",),
    kept_by=("south",),
    standby=("south",),
    behind_bytes=4_096,
    under_replicated=False,
)
MACHINE = MachineAnswer(
    name="north",
    alive=True,
    zone="hall-1",
    takes_copies=True,
    at="10.0.0.11:8700",
    cores=8.0,
    share=0.5,
    load=1.25,
    tags=("gpu",),
    image="gpu-large",
    hosts=(_HOST,),
    keeps=("south",),
)
DRAINING = MACHINE.model_copy(update={"draining": True, "hosts": (_HOST.model_copy(update={"heir": "south"}),)})
NEWCOMER = MachineAnswer(
    name="east",
    alive=True,
    waits="it is new; admit it with: braid machines admit east",
    key="AUq0ijw4xAA-7MRvq0Dw7ZIwkWDAzh4pjgqgbzPuvEo",
    zone="hall-2",
    takes_copies=True,
    at="10.0.0.13:8700",
    cores=8.0,
)
GONE = MachineAnswer(name="north", alive=False)
MACHINE_PAGE = Page[MachineAnswer](items=(NEWCOMER, MACHINE))
IMAGE = ImageAnswer(name="gpu-large", tags=("gpu",), cores=8.0, start=90.0, price=2.4, most=4, hosts=("north",))
IMAGE_PAGE = Page[ImageAnswer](items=(IMAGE,))
PLACEMENT = PlacementAnswer(
    dataflow="3f1c9a52",
    tasks=(
        PlacedTaskAnswer(
            task="average",
            instance=3,
            job="2",
            host="north",
            image="gpu-large",
            tags=("gpu",),
            why="its host offers gpu; bridges bring what feeds it, from job 1",
        ),
    ),
    cost=0.08,
    cheapest=0.07,
    second=0.075,
    bound=0.07,
    saves={"gpu-huge": 0.01},
    more=(WorthOfMoreAnswer(tags="gpu", host=0.4, core=0.1),),
)
PLACEMENT_PDDL = PlacementPddlAnswer(dataflow="3f1c9a52", domain="(define (domain groups) ...)", problem="(define ...)")
PLACEMENT_PLAN = PlacementPlanAnswer(
    dataflow="3f1c9a52",
    groups=(PlannedGroupAnswer(tags="gpu", tasks=("average", "plausible")),),
    cost=0.07,
    now=0.08,
)
