"""What the sinks that tell of changes share: what happened, and the outbox that keeps it until it is told."""

FOLDER = "outbox"  # of the outboxes, within what is kept of a project
