"""Measurements: ratios and shares in one run."""
