"""The commands about where things run: machines, the images that hosts are made from, and placements."""
