"""Task types that say which fields they change, and which emit once by some fields, beside those of the catalogue."""

from dags import AnyTaskType, Catalogue, Config, Emission, State, TaskType
from dags.task_type import sets_nothing
from tests.catalogue import TYPES


class FieldsConfig(Config):
    """Some fields."""

    fields: tuple[str, ...] = ()


class OnceConfig(Config):
    """The fields by which a task emits once; without any, once for all."""

    by: tuple[str, ...] = ("place",)
    again: bool = False
    """Emit again and again instead."""
    generation: int = 0


OWN: tuple[AnyTaskType, ...] = (
    TaskType(name="pass", config=OnceConfig, sets=sets_nothing),
    TaskType(name="set", config=FieldsConfig, sets=lambda config: config.fields),
    TaskType(
        name="spread", config=FieldsConfig, sets=lambda config: config.fields, emission=Emission.MANY
    ),  # several of each event
    TaskType(
        name="once",
        config=OnceConfig,
        state=State.STREAM,
        unique_by=lambda config: None if config.again else config.by,
    ),
)
UNIQUE_TYPES = Catalogue.of([*TYPES, *OWN])
