"""Neighbours: what three quiet dataflows notice of a greedy one beside them, attack by attack."""
