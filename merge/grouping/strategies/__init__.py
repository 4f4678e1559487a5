"""The strategies by which tasks are cut into groups, a file each."""
