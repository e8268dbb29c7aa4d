"""TPC-H as views: the 22 queries maintained together under refresh streams."""
