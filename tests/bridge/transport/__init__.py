"""Tests of MQTT clients."""
