"""The public test kit: pipelines over tables of one's own, real servers, and disks that fail on demand."""

from headrace.log.faults import CRASH, Fault, FaultyFiles
from headrace.testing.pipeline import Pipeline

__all__ = ["CRASH", "Fault", "FaultyFiles", "Pipeline"]
