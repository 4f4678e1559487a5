"""The commands that ask the service: each asks through `manager.client`, and shows what it is answered.

A module is imported when one of its commands is called, so that no command waits for what another one needs.
The table of commands is in `manager.command`, what each exit code means in `manager.commands.exit_codes`.
"""
