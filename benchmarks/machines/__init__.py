"""Machines that are lost and joined while dataflows run: how long outputs are missing, and what copies cost."""
