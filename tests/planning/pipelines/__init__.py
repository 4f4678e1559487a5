"""Tests of pipelines: their forms, passages, plans and documents."""
