"""The public test kit: real servers, and disks that fail on demand."""

from headrace.log.faults import CRASH, Fault, FaultyFiles

__all__ = ["CRASH", "Fault", "FaultyFiles"]
