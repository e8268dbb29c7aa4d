"""What the sinks that tell of changes share: what happened, and the outbox that keeps it until it is told."""
