"""Recordings of real servers, small enough to travel with the code."""
