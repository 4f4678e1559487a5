"""The commands that workloads add to `braid`: demo, opmw, replay, report, riotbench and trace."""
