"""Type systems, each translated to and from Spark SQL's type text (the hub)."""
