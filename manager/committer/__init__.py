"""Changes of the committed state: one committer, and for each subject the changes that it makes."""
