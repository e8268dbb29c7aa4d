"""Goal: once another instance has taken a sink over, the old one writes nothing, whatever it was doing.

Method: a writer is held by the kernel at its n-th call that changes a file or speaks to the server; a second one takes
the sink over and goes on; the old one wakes, before the second writes or meanwhile. The store is read by its own client
and held against the model; in PostgreSQL a trigger writes down who moved the progress row. A DuckDB file that the old
one has open cannot be taken over: then it goes on, as the one that has the sink.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from bank import History
from bank_judge import generation
from bank_judge import sink as stored
from control_plane import FINISHED, World
from fork_server import Forks
from old_writer import FENCED, Writer, delivery
from proof_report import SEED, SIZE, Proof

from headrace.model.delivery import Succession
from headrace.model.errors import HeadraceError
from headrace.sinks.connectors.postgres import connector as postgres
from headrace.testing.postgres import PostgresServer

TAKE_OVERS = (8, 20, 250)  # in each store
# About so many calls, or calls of one name, has a writer. DuckDB's folder is made sure of while the file is closed.
CALLS = {"duckdb": [(60, ""), (6, "mkdir"), (6, "mkdir"), (6, "mkdir")], "postgres": [(60, "")]}
TRANSACTIONS = 200
WITNESS = """
CREATE TABLE {0}.witness (nr bigserial, generation bigint, commit bigint);
CREATE FUNCTION {0}.witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO {0}.witness (generation, commit) VALUES (new.generation, new.commit); RETURN NULL; END $$;
CREATE TRIGGER witness AFTER UPDATE ON {0}.headrace_progress FOR EACH ROW EXECUTE FUNCTION {0}.witness()
"""


@pytest.mark.parametrize("kind", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_an_old_instance_wakes(
    kind: str, forks: Forks, folder: Path, proof: Proof, request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    server: PostgresServer | None = request.getfixturevalue("server") if kind == "postgres" else None
    monkeypatch.setattr(postgres, "TAKE_OVER_WAIT_MS", 50)
    rng = random.Random(f"{SEED} take-overs {kind}")
    at: Counter[str] = Counter()
    kept = number = 0
    while proof.tried < TAKE_OVERS[SIZE]:
        number += 1
        place_of, schema = folder / str(number), f"take_over_{number}"
        place_of.mkdir()
        world = World(str(place_of), SEED * 1000 + number, TRANSACTIONS, False, server.dsn if server else "", schema)
        made = History(world.seed, TRANSACTIONS)
        first = world.sink()
        first.open()
        first.write(delivery(made, 0, 1))
        first.close()
        if server is not None:
            server.psql(WITNESS.format(schema))
        done = 1
        while done < TRANSACTIONS - 30 and proof.tried < TAKE_OVERS[SIZE]:
            most, only = rng.choice(CALLS[kind])
            place = rng.randrange(1, most)
            owner = generation(world)
            call = forks.hold(world, done + 10, place, only)
            if not isinstance(call, str):  # it had fewer calls
                assert call["status"] == FINISHED, call
                done += 10
                continue
            said = f"{kind}, seed {world.seed}, held at {place}, {call}, from commit {done}"
            if generation(world) == owner:  # it has not even taken over: it is not the old one yet
                forks.let_go()
                assert forks.ended()["status"] == FINISHED
                done += 10
                continue
            new = Writer(world.sink(), made, done + 20)
            try:
                reached = new.sink.open() or 0
            except HeadraceError as error:
                assert (kind, error.code) == ("duckdb", "sink.connect"), error
                kept += 1
                forks.let_go()
                if (status := forks.ended()["status"]) != FINISHED:
                    proof.wrong.append(f"{said}: kept the file and ended with {status}")
                done += 10
                continue
            at[call] += 1
            proof.tried += 1
            before = stored(world)
            if rng.random() < 0.5:  # it wakes before the new one writes
                forks.let_go()
                status = forks.ended()["status"]
                if stored(world) != before:
                    proof.wrong.append(f"{said}: it wrote after it was taken over")
                write_on(new, reached)
            else:
                forks.let_go()
                write_on(new, reached)
                status = forks.ended()["status"]
            if status != FENCED:
                proof.wrong.append(f"{said}: it ended with {status}")
            done, contents = stored(world)[0] or 0, stored(world)[1]
            if done != new.upto or contents != made.held[done]:
                proof.wrong.append(f"{said}: the store has commit {done} of {new.upto}, or other contents")
        if server is not None:
            proof.wrong += [f"seed {world.seed}: {what}" for what in out_of_order(server, schema)]
            server.psql(f"DROP SCHEMA {schema} CASCADE")
    proof.what = f"take-overs of a sink in {kind}"
    proof.detail = f"held at {', '.join(f'{n} {call}' for call, n in sorted(at.items()))}; {kept} kept their file"
    proof.holds()


def write_on(new: Writer, reached: int) -> None:
    """As the delivery thread does, without taking over once more."""
    new.frontier = reached
    while (due := new.next({})) is not None:
        commit = due.commits[-1] if isinstance(due, Succession) else due.commit
        try:
            if isinstance(due, Succession):
                new.sink.write_each(due)
            else:
                new.sink.write(due)
            new.frontier = commit
        except HeadraceError as error:  # the old one has the file open, to find that it is fenced
            if error.code != "sink.connect":
                raise
    new.sink.close()


def out_of_order(server: PostgresServer, schema: str) -> list[str]:
    """Where an older generation moved the progress row after a newer one, or a commit came twice."""
    with psycopg.connect(server.dsn) as connection:
        rows = connection.execute(f"SELECT generation, commit FROM {schema}.witness ORDER BY nr".encode()).fetchall()
    found = [f"generation {b} wrote after {a}" for (a, _), (b, _) in itertools.pairwise(rows) if b < a]
    return found + [f"commit {b} after {a}" for (_, a), (_, b) in itertools.pairwise(rows) if b < a]
