"""Costs: measured, learnt and fitted to prices; and where tasks should run by them."""
