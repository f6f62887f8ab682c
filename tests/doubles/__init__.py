"""Doubles of the outside services, faithful on the wire: what the real clients speak to in the tests."""
