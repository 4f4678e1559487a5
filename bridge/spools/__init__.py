"""Spools: durable logs of the streams that enter jobs, and the positions of their consumers."""
