"""Trials: a draft runs on a few events, in a process of its own, before anything of it is submitted."""
