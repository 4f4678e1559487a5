"""Tests of machines, their carriages, images and scaling."""
