"""Hosts and jobs as their messages over the broker describe them, with the rates and costs computed from that."""
