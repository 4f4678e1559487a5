"""Twins: stand-ins in memory of real parts, behind the same interfaces."""
