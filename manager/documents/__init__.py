"""Documents before they are committed: made canonical, checked, and previewed."""
