"""The commands that need no running service: serve, backup, restore, doctor, check."""
