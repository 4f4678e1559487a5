"""RIoTBench's four data sets: the fields of their rows, plausible ranges, and the windows of their applications."""

from collections.abc import Mapping
from dataclasses import dataclass

Range = tuple[float, float]
TIMESTAMP = "timestamp"
"""The column with the time in the benchmark's CSV files; rows of SenML have a time of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of each row, and the way it is generated."""

    name: str
    unit: str
    text: bool = False
    """True if it is a text and not a measurement."""
    observed: bool = False
    """True if dataflows work on it."""
    valid: Range | None = None
    """The bounds of plausible values in the benchmark."""
    decimals: int = 2
    middle: float = 0.0
    """The mean of a field that follows a wave."""
    swing: float = 0.0
    """The amplitude of the wave."""
    spread: float = 0.0
    """The difference between sensors."""
    noise: float = 0.0
    """The standard deviation of the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One data set of the benchmark."""

    name: str
    key: str
    """The field with the sensor."""
    fields: tuple[Field, ...]
    """In the order of a row, after the key."""
    sensors: tuple[str, ...]
    """The sensors, which measure in turn."""
    annotation: str
    """The name of the field with the annotation of each sensor."""
    begin: int
    """The time of the first row, in milliseconds since 1970."""
    step: int
    """Milliseconds from one row to the next, in the time of the rows."""
    course: float = 86_400.0
    """Seconds of one wave, by default a day."""
    average: int = 10
    """Values in a block's average."""
    buckets: int = 1_024
    """Buckets of the sketch that counts distinct values."""
    collected: int = 20
    """Values that are collected into one event."""
    predicted: int = 10
    """Future values that a sliding regression predicts."""
    features: tuple[str, ...] = ()
    """The inputs of models; empty if only one field is observed."""
    target: str = ""
    """The field that models predict."""
    learned: int = 300
    """Rows that a model is learned from."""
    per_second: float = 10.0
    """Rows per second by default."""

    @property
    def known(self) -> tuple[str, ...]:
        """The sensors that filters let pass: all but the last."""
        return self.sensors[:-1]

    @property
    def observed(self) -> tuple[str, ...]:
        """The fields that dataflows work on."""
        return tuple(field.name for field in self.fields if field.observed)

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The bounds of the observed fields that have any."""
        return {field.name: field.valid for field in self.fields if field.observed and field.valid}

    def source(self, kind: str) -> str:
        """The name of one of the set's sources, which is also its topic.

        >>> URBAN.source("rows")
        'riotbench.urban.rows'
        """
        return f"riotbench.{self.name}.{kind}"


def _wave(name: str, unit: str, valid: Range, decimals: int, middle: float, swing: float, spread: float) -> Field:  # noqa: PLR0913, PLR0917 - a line of the tables below
    return Field(
        name=name,
        unit=unit,
        observed=True,
        valid=valid,
        decimals=decimals,
        middle=middle,
        swing=swing,
        spread=spread,
        noise=swing / 4,
    )


URBAN = DataSet(
    name="urban",
    key="source",
    fields=(
        Field(name="longitude", unit="lon", decimals=7, middle=77.6, spread=0.09),
        Field(name="latitude", unit="lat", decimals=7, middle=12.97, spread=0.05),
        _wave("temperature", "far", (-12.5, 43.1), 1, 21.0, 7.0, 3.0),
        _wave("humidity", "per", (10.7, 95.2), 1, 55.0, -16.0, 6.0),
        _wave("light", "per", (1_345.0, 26_282.0), 0, 12_000.0, 6_500.0, 1_200.0),
        _wave("dust", "per", (186.61, 5_188.21), 2, 1_900.0, 700.0, 350.0),
        _wave("airquality_raw", "per", (17.0, 363.0), 0, 120.0, 45.0, 20.0),
    ),
    sensors=tuple(f"ci4lr75sl0008{at:02}ypo4qrcjda{at:02}" for at in range(1, 8)),
    annotation="city",
    begin=1_422_748_800_000,
    step=60_000,
    average=5,
    buckets=32,
    features=("temperature", "humidity", "light", "dust"),
    target="airquality_raw",
    learned=100,
)
"""Sensors of air and weather in a city."""


def _paid(name: str, unit: str, valid: Range | None = None) -> Field:
    return Field(name=name, unit=unit, observed=True, valid=valid)


TAXI = DataSet(
    name="taxi",
    key="taxi_identifier",
    fields=(
        # The benchmark observes this field too, although it is no number; here it is a text.
        Field(name="hack_license", unit="string", text=True),
        Field(name="pickup_datetime", unit="time", text=True),
        Field(name="trip_time_in_secs", unit="second", observed=True, valid=(140.0, 3_155.0), decimals=0),
        _paid("trip_distance", "meter", (1.37, 29.86)),
        Field(name="pickup_longitude", unit="lon", text=True),
        Field(name="pickup_latitude", unit="lat", text=True),
        Field(name="dropoff_longitude", unit="lon", text=True),
        Field(name="dropoff_latitude", unit="lat", text=True),
        Field(name="payment_type", unit="string", text=True),
        _paid("fare_amount", "dollar", (6.0, 201.0)),
        _paid("surcharge", "percentage"),
        _paid("mta_tax", "percentage"),
        _paid("tip_amount", "dollar", (0.65, 38.55)),
        _paid("tolls_amount", "dollar", (2.5, 18.0)),
        _paid("total_amount", "dollar"),
    ),
    sensors=tuple(f"149298F6D390FA640E80B41ED311{at:04X}" for at in range(0x99C0, 0x99C8)),
    annotation="company",
    begin=1_358_101_800_000,
    step=60_000,
    collected=10,
    features=("trip_time_in_secs", "trip_distance"),
    target="fare_amount",
)
"""Rides of taxis, each reported at its end."""

GRID = DataSet(
    name="grid",
    key="meterid",
    fields=(_wave("energyconsumed", "kwh", (1.828, 36.658), 3, 12.0, 6.0, 1.5),),
    sensors=tuple(str(at) for at in range(1000, 1008)),
    annotation="street",
    begin=1_247_511_000_000,
    step=225_000,
    predicted=2,
)
"""Meters of a power grid, each read every half hour."""


def _moved(place: str, *valid: Range) -> tuple[Field, ...]:
    """The acceleration of a part of the body."""
    return tuple(
        Field(
            name=f"acc_{place}_{axis}",
            unit="m/s2",
            observed=True,
            valid=(low, high),
            decimals=4,
            middle=(low + high) / 2,
            swing=(high - low) / 5,
            spread=(high - low) / 40,
            noise=(high - low) / 25,
        )
        for axis, (low, high) in zip("xyz", valid, strict=True)
    )


def _turned(place: str) -> tuple[Field, ...]:
    """The other measurements of a body sensor: rotation and magnetic field."""
    return tuple(
        Field(name=f"{kind}_{place}_{axis}", unit=unit, decimals=5, swing=0.5, spread=0.1, noise=0.1)
        for kind, unit in (("gyro", "deg/s"), ("magnetometer", "tesla"))
        for axis in "xyz"
    )


FITNESS = DataSet(
    name="fitness",
    key="subjectId",
    fields=(
        *_moved("chest", (-13.931, 4.123), (-4.6376, 5.2361), (-8.1881, 7.8786)),
        _wave("ecg_lead_1", "mV", (-4.9314, 6.1371), 6, 0.6, 1.2, 0.1),
        _wave("ecg_lead_2", "mV", (-6.786, 6.6604), 6, 0.0, 1.3, 0.1),
        *_moved("ankle", (-5.0006, 8.1472), (-14.303, 1.5909), (-8.6234, 8.6958)),
        *_turned("ankle"),
        *_moved("arm", (-9.824, 5.5778), (-10.059, 8.506), (-6.6739, 9.5725)),
        *_turned("arm"),
        Field(name="label", unit="number", decimals=0, middle=6.0, spread=6.0),
    ),
    sensors=tuple(f"subject{at}" for at in range(1, 6)),
    annotation="group",
    begin=1_417_890_600_000,
    step=20,
    course=0.9,
    features=("acc_chest_x", "acc_chest_y", "acc_ankle_x", "acc_arm_x"),
    target="ecg_lead_1",
    per_second=5.0,
)
"""Sensors on the bodies of people who exercise."""

DATA_SETS: Mapping[str, DataSet] = {data.name: data for data in (URBAN, TAXI, GRID, FITNESS)}
"""All data sets by name."""
