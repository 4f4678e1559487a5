"""Series: what dataflows did over time, kept in steps that become longer as they become older, within bounds."""
