"""Brokers that run here as child processes: mosquitto, or the embedded broker."""
