"""MQTT clients, and what is handed on of the messages that they receive."""
