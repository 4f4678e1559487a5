"""Machines: processes that carry hosts, by the orders of the leading manager."""
