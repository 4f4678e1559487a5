"""Reconfigurations: tasks get new configs, types or versions while they run, and keep their states."""
