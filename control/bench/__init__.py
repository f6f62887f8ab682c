"""Loads and measures: what is run against a pod to learn what it can do."""
