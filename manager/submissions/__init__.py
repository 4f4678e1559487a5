"""Submissions before they are committed: documents made canonical, checked and previewed."""
