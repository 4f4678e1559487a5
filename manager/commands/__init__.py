"""The commands of `braid`: each asks the service through `manager.client`, and shows the answer.

The table of commands is in `manager.command`. A module is imported when one of its commands is called, so that `braid`
starts fast. The commands in `manager.commands.local` need no running service.
"""
