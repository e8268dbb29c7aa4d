"""Headrace keeps SQL views up to date, incrementally and transactionally, on Apache Spark."""

__version__ = "0.1.0"
