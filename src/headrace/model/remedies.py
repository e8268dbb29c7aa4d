"""For every error code: what brings it about most often, and what mends it. An error's own ``next`` is more exact.

`headrace help CODE` and docs/reference/errors.md show them below the code's meaning.
"""

from __future__ import annotations

from headrace.model.remedies_asking import ASKING
from headrace.model.remedy import Remedy

# In the order of ``headrace.model.errors.CODES``.
REMEDIES: dict[str, Remedy] = {
    "project.not_found": Remedy(
        "The command was given outside of a project, or `--project` names another folder.",
        "`cd` into the folder with headrace.yaml, or name it: `--project DIR`. `headrace init DIR` makes one.",
    ),
    "project.locked": Remedy(
        "A `headrace up`, or a command that starts Spark for itself, runs in this folder: two would write one log.",
        "Use the one that runs (`headrace status`), or end it: `headrace stop`.",
    ),
    "project.not_running": Remedy(
        "The process that runs the project carries this command out, and there is none, or it is just stopping.",
        "`headrace up` in another terminal, then the command again.",
    ),
    "project.exists": Remedy(
        "The folder holds files that the command would have to overwrite.",
        "Name a folder that is empty or not there.",
    ),
    "project.copied": Remedy(
        "The folder was copied with its .headrace: original and copy are known by one id and history, and would take "
        "the slot at a source and the tables in a sink from each other.",
        "Remove one of the two; or point the sinks of the copy elsewhere, then `headrace up --as-copy`.",
    ),
    "backup.damaged": Remedy(
        "Taking the backup was interrupted, or its files were changed or lost.",
        "Take another one with `headrace backup DIR`; restore from one that is whole.",
    ),
    "config.unknown_key": Remedy(
        "A key is spelled wrong, stands on the wrong level, or belongs to another type of connector.",
        "Correct the line that the error names; it lists the keys that are known. `headrace doctor` reads all files.",
    ),
    "config.invalid": Remedy(
        "A value has another type than the key takes, a name has characters that SQL does not, or a file is no YAML.",
        "Correct the line that the error names, then `headrace doctor`.",
    ),
    "config.secret": Remedy(
        "A password or token says `env:NAME` or `file:PATH`, and the variable is not set in the shell that started the "
        "command, or the file is not there.",
        "`export NAME=...` before the command, or write the file.",
    ),
    "config.unknown_type": Remedy(
        "`type:` in sources/NAME.yaml or sinks/NAME.yaml is spelled wrong, or is one of the other kind.",
        "Write one of the types that the error lists.",
    ),
    "config.library": Remedy(
        "Parts that not everybody uses bring their library as an extra, which was not installed.",
        "`pip install 'headrace[EXTRA]'`, with the extra that the error names.",
    ),
    "sql.syntax": Remedy(
        "A word or a bracket of the query is wrong or missing; a view is one SELECT of Spark SQL.",
        "Correct the place that the error names (file:line:column), then `headrace plan`.",
    ),
    "sql.refused": Remedy(
        "The query holds what has no meaning in a view that is kept: another statement than SELECT, a function with "
        "side effects or one that is not known.",
        "Write it as the error says; [the functions](functions.md) tell which may be used.",
    ),
    "sql.unknown_relation": Remedy(
        "The name is spelled wrong, its source has no such table, or its source could not be reached.",
        "Take a name that the error lists; `headrace plan` shows each source with its tables.",
    ),
    "sql.unknown_column": Remedy(
        "The name is spelled wrong, or the column belongs to a table that the query does not read.",
        "Take a column that the error lists, then `headrace plan`.",
    ),
    "sql.analysis": Remedy(
        "The query is well formed, but Spark cannot give it a meaning: types that do not go together, a column that is "
        "neither grouped nor aggregated.",
        "Change the expression that the error names, then `headrace plan`.",
    ),
    "sql.not_deterministic": Remedy(
        "An expression gives another value whenever it is asked (`rand()`, `uuid()`, a time without a date): the view "
        "would not be the same after a restart.",
        "Take the value from a column, or `now()`, which is the time of the log's clock.",
    ),
    "sql.not_incremental": Remedy(
        "The clause has no rule yet that works on changes alone; to compute it anew at each change would be slow in "
        "secret.",
        "Rewrite it as the error says; or begin the view's file with `-- on_change: recompute` where it is small.",
    ),
    "function.invalid": Remedy(
        "The file in functions/ does not run by itself, or a function's `returns` does not fit what it gives.",
        "`python functions/NAME.py` says more; see [functions in Python](python_functions.md).",
    ),
    "function.not_allowed": Remedy(
        "Code of a project runs with the rights of who starts it; so it must be allowed by hand.",
        "Read the file; where you trust it, write `code: true` into headrace.yaml.",
    ),
    "definition.exists": Remedy(
        "A `CREATE` names a source, view or sink that the project has.",
        "`CREATE OR REPLACE` takes its place, `IF NOT EXISTS` leaves it; or `DROP` it first.",
    ),
    "definition.unknown": Remedy(
        "The name is misspelt, or its file was removed.",
        "`SHOW SOURCES`, `SHOW SINKS` in psql or `headrace sql` list them.",
    ),
    "definition.in_use": Remedy(
        "A sink is to go, and `waits_for` of a source or `retention.wait_for` in headrace.yaml names it.",
        "Take its name out of the file that the error names, then `DROP SINK` again.",
    ),
    "view.unknown": Remedy(
        "The name is spelled wrong, the view's file is gone, or `headrace apply` has not taken it in yet.",
        "`headrace views` lists them; a new file is taken in by `headrace apply`.",
    ),
    "view.not_at": Remedy(
        "The commit lies before the view's first rows or before what retention keeps, or the view failed there.",
        "Ask for another commit: `headrace log ls` shows which there are.",
    ),
    "view.has_readers": Remedy(
        "Other views or sinks read the view, and would be left without it.",
        "Drop or change these first: the error names them.",
    ),
    "view.failed": Remedy(
        "An expression throws on a row: a division by zero, a cast of a text that is no number.",
        "`headrace show VIEW` names the rows: correct them at the source, or write the expression so that it can take "
        "them (`try_divide`, `try_cast`), then `headrace apply`.",
    ),
    "view.cycle": Remedy(
        "A view reads another one that, over some steps, reads the first.",
        "Take one of them out of the circle; a query that follows itself is written as WITH RECURSIVE in one view.",
    ),
    "log.corrupt": Remedy(
        "A disk or a program has changed bytes of the log, or files of it were removed.",
        "`headrace log verify` tells what still stands; `headrace restore BACKUP DIR` goes back to a backup "
        "([damage](damage.md)).",
    ),
    "log.full": Remedy(
        "The disk that holds .headrace is full. Nothing that was acknowledged is lost.",
        "Free some space: a `headrace up` that still runs goes on by itself. `headrace log retain` lets the log's "
        "beginning go.",
    ),
    "log.failed": Remedy(
        "The disk has refused a write, or the process may open no more files.",
        "Check the disk, its rights and `ulimit -n`, then `headrace up`: it finds what was kept.",
    ),
    "log.retained": Remedy(
        "`retention` in headrace.yaml, or `headrace log retain`, has let these commits go; tables are kept as of then.",
        "Ask from the commit on that the error names; longer retention keeps more from now on.",
    ),
    "log.layout": Remedy(
        "A later version of Headrace has run this project, or the folder is of a time before this one.",
        "Use the version that wrote it, or a later one; nothing was changed.",
    ),
    "state.missing": Remedy(
        "A file below .headrace was removed, or what was asked for was let go since.",
        "`headrace rebuild --all` makes views and state anew from the log.",
    ),
    "state.corrupt": Remedy(
        "A disk or a program has changed bytes of a view's file or of the catalogue. The log is not concerned.",
        "`headrace rebuild VIEW` makes it anew from the log; then check the disk ([damage](damage.md)).",
    ),
    "state.layout": Remedy(
        "A later version of Headrace has run this project.",
        "Use that version, or let it go back: `headrace migrate --to N`.",
    ),
    "state.full": Remedy(
        "The disk that the error names is full: mostly that of .headrace. Nothing that was acknowledged is lost.",
        "Free some space, then the same command again; `headrace up` goes on from the log. What is published can be "
        "read meanwhile.",
    ),
    "state.failed": Remedy(
        "The disk refuses to write or read, or the folder's rights were changed.",
        "Mend what the error says of the disk, then `headrace up`.",
    ),
    "state.mismatch": Remedy(
        "A step was run again after a crash and gave other rows: mostly a function in Python that is not the same for "
        "the same row, or another version of a library.",
        "Make the function depend on its arguments alone, then `headrace rebuild VIEW`.",
    ),
    "spark.lost": Remedy(
        "The kernel has ended the Java process when memory was short, or somebody has; or a step over few rows took "
        "longer than `step_seconds`, and `headrace up` has ended it.",
        "`headrace up` begins Spark again by itself, and goes on where it stopped; a view that ends it twice is set "
        "aside, the others go on. `headrace doctor` compares `driver_memory` with the machine.",
    ),
    "source.connect": Remedy(
        "Host, port or database are wrong, the server does not run, a network is in between, or a folder is missing.",
        "Correct the source's file; `headrace doctor` tries again. While `headrace up` runs it goes on by itself once "
        "the server is back.",
    ),
    "source.auth": Remedy(
        "User or password are wrong, the server lets nobody in from this host, or a push had no valid token.",
        "Check the secret and, at PostgreSQL, pg_hba.conf; a push sends `Authorization: Bearer TOKEN`.",
    ),
    "source.setup": Remedy(
        "The server does not write what replication needs: `wal_level` at PostgreSQL, the binary log's form at MySQL.",
        "`headrace doctor` prints each statement; some need the server to restart.",
    ),
    "source.rights": Remedy(
        "The role may not replicate, not read a table, or not make the publication.",
        "`headrace doctor` prints the statements that give the rights.",
    ),
    "source.no_table": Remedy(
        "A name is spelled wrong, or the table is in a schema that the source's `schemas` leaves out.",
        "Take a name that the error lists; `headrace plan` shows each source with its tables.",
    ),
    "source.no_identity": Remedy(
        "A row is to be changed or removed, and nothing tells which it is: the table has no key.",
        "Give it a primary key, or `ALTER TABLE ... REPLICA IDENTITY FULL`; for a pushed table declare `key`.",
    ),
    "source.row": Remedy(
        "A value does not fit its column: text where a number is, more digits than the column holds, a null where none "
        "may be.",
        "Correct it where it comes from; with `on_error: quarantine` such rows are set aside ([the "
        "quarantine](quarantine.md)).",
    ),
    "source.conflict": Remedy(
        "An insert of a key that is there, or a change of a row that is not, at a table with `on_conflict: refuse`.",
        "Correct the data; or `on_conflict: quarantine`, which sets such changes aside and goes on.",
    ),
    "source.schema": Remedy(
        "A table was altered so that a view which reads it means something else, or nothing.",
        "Edit the view, then `headrace apply`; or apply it as it is.",
    ),
    "source.port": Remedy(
        "Another program, or another project, listens at the source's port.",
        "Set another `port:` in the source's file (0 takes a free one), or stop the other.",
    ),
    "source.request": Remedy(
        "The body of a push is not JSON, or not of the form of a transaction.",
        'Send `{"changes": [{"table": "t", "op": "insert", "row": {}}]}`; the answer says what was wrong.',
    ),
    "source.key": Remedy(
        "A client uses one Idempotency-Key for two different requests.",
        "A new key for every new request; the same one only to send the same again.",
    ),
    "source.busy": Remedy(
        "More is pushed than is logged, or the product is stopping.",
        "Push again after a second, with the same Idempotency-Key ([backpressure](backpressure.md)).",
    ),
    "source.dropped": Remedy(
        "More was pushed than was taken, and the source says `when_full: drop`.",
        "`when_full: wait` or `refuse` loses nothing; `headrace status` counts what was dropped.",
    ),
    "source.file": Remedy(
        "A file has other columns than the table, is no CSV, JSON lines or Parquet, or was changed after it was read.",
        "Put a corrected file in its place, under another name where it was read already.",
    ),
    "quarantine.unknown": Remedy(
        "The id is spelled wrong, or was settled meanwhile.",
        "`headrace quarantine list` shows what is there.",
    ),
    "quarantine.replay": Remedy(
        "The change cannot be sent again in that form: it has no key to find its row by, or does not fit still.",
        "`headrace quarantine fix ID COLUMN=VALUE`, or another `--as`.",
    ),
    "sink.unknown": Remedy(
        "The name is spelled wrong, or the sink's file is gone.",
        "Take a name that the error lists; each is a file of sinks/.",
    ),
    "sink.connect": Remedy(
        "The store does not run, its address is wrong, or another program holds the DuckDB file.",
        "Mend it; `headrace up` sends the same changes again by itself, none is lost. `headrace doctor` tries now.",
    ),
    "sink.auth": Remedy(
        "User or password of the sink are wrong, or the server lets nobody in from this host.",
        "Check the secret and pg_hba.conf, then `headrace doctor`.",
    ),
    "sink.rights": Remedy(
        "The role may not make tables in the schema, or does not own a table that it is to write.",
        "`headrace doctor` prints the statement that gives the right.",
    ),
    "sink.conflict": Remedy(
        "The store has a table of that name already, views of its own that depend on ours, or two rows of a view have "
        "one declared key.",
        "Rename or drop the one that is in the way, give the sink another `schema`, or declare the view's true key.",
    ),
    "sink.diverged": Remedy(
        "Somebody else has changed the sink's tables, or its store was restored from a backup.",
        "`headrace repair --sink NAME` writes what differs again.",
    ),
    "sink.fenced": Remedy(
        "Another `headrace up` with the same project and sink name has begun to write: of two only the later may.",
        "Stop one of the two, or give one of them another name in headrace.yaml.",
    ),
    "sink.value": Remedy(
        "The store has no such value: a text with NUL at PostgreSQL, a name that is too long, a key too long for an "
        "index.",
        "Change it in the view, or declare another key; `headrace quarantine list` shows what was set aside.",
    ),
    "sink.gone": Remedy(
        "A webhook's receiver answered HTTP 410: it takes nothing at that address any more. The sink has ended.",
        "Name another `url` and restart: what waits in the sink's outbox goes there. Or remove the sink's file.",
    ),
    "sink.letter": Remedy(
        "The number is that of another sink's letter, or the letter was sent again or dropped meanwhile.",
        "`headrace alerts ls SINK` lists those that are there.",
    ),
    "sink.refused": Remedy(
        "The store refuses a statement for a reason of its own: a trigger, a constraint that was added, a full disk. "
        "Or the receiver of a webhook or a mail does not take it now.",
        "Mend what its message says; the same changes are sent again.",
    ),
    "sink.unsupported": Remedy(
        "The command asks something that this type of sink has no way to do.",
        "The error says what does the same.",
    ),
    "group.unknown": Remedy(
        "The group's name is spelled wrong, or it was dropped.",
        "`headrace groups ls` lists them; `headrace groups create NAME FEED` makes one.",
    ),
    "group.exists": Remedy(
        "A group of that name follows something already.",
        "Read it, or take another name.",
    ),
    "group.invalid": Remedy(
        "A lease, a number of attempts or a starting point is out of its range.",
        "Take a value of the range that the error names ([consumer groups](groups.md)).",
    ),
    "group.relation": Remedy(
        "A reader asks for one feed under the name of a group that follows another.",
        "Leave the feed out, or give its group another name.",
    ),
    "group.lease": Remedy(
        "The reader took longer than its lease, and the delivery went to somebody else.",
        "Nothing: it is delivered again. A longer lease, or `headrace groups extend`, gives a reader more time.",
    ),
    "group.position": Remedy(
        "The commits that the group is to read next were let go by retention, or it is to start beyond the end.",
        "`headrace groups drop NAME`, then create it anew where it shall begin.",
    ),
    "group.letter": Remedy(
        "The dead letter was delivered again or dropped meanwhile.",
        "`headrace groups dead ls NAME` lists what is there.",
    ),
    **ASKING,
    "profile.flame": Remedy(
        "py-spy is not installed, or the kernel does not let it look into another process.",
        "The same command without `--flame`, or what the error says of py-spy ([profiles](profile.md)).",
    ),
    "internal": Remedy(
        "Something happened that the code does not expect; what was acknowledged is in the log.",
        "Run the command again with HEADRACE_DEBUG=1, and report what it prints; `headrace up` goes on from the log.",
    ),
}
