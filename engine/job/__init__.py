"""One running job: its life cycle, its log of plans, its query, its pace, its health and its status."""
