"""Peers: the same dataflows on Braid, Node-RED, plain PySpark and PyFlink, side by side.

`dataflows` draws them, and `due` says which outputs they owe. `braid`, `node_red` and `fed_by_lines` run them;
`measurement` loads a running system and measures it, and `session` does so at one rate after another. Generator,
subscriber and broker are processes of their own, which count for nobody.
"""
