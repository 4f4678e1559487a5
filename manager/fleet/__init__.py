"""Machines that the service adds and removes by itself.

`ring.scale` decides, `Scaler` has that committed and sees to it, by processes of its own (`HostProcesses`) or by a
command of the operator's (`ScaleHook`).
"""
