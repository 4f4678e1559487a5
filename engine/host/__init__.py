"""The process of a host: it runs, feeds and watches jobs, and removes what they leave behind."""
