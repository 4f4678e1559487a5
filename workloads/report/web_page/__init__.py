"""The page of a report, as HTML."""
