"""The kinds of brokers that tests run against: what holds of one holds of both, unless a test says why not."""

import pytest

MOSQUITTO = pytest.param("mosquitto", marks=pytest.mark.mosquitto)
KINDS = (MOSQUITTO, "embedded")
