"""Fixtures that every test may ask for: the doubles of the outside services."""

from tests.doubles.fixtures import hub as hub
