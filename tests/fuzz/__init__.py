"""Inputs made at random, by the million."""
