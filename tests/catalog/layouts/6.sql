BEGIN TRANSACTION;
CREATE TABLE base (feed text primary key, step integer not null, upto integer not null, paths text not null,
    rows integer not null) strict;
INSERT INTO "base" VALUES('w@1',1,7,'["state/base", "/else/base"]',5);
CREATE TABLE checkpoint (step integer primary key, runs text not null) strict;
INSERT INTO "checkpoint" VALUES(1,'{"table:t": [["state/1/run", 5, 100]]}');
CREATE TABLE error_row (view text not null, version integer not null, place integer not null, feed text not null,
    together integer not null, content blob not null, shown text not null, weight integer not null,
    held integer not null, message text not null, primary key (view, version, place)) strict;
CREATE TABLE meta (name text primary key, value text not null) strict;
INSERT INTO "meta" VALUES('layout','6');
CREATE TABLE output (step integer not null, feed text not null, path text not null, rows integer not null,
    crc integer not null, primary key (feed, step, path)) strict;
INSERT INTO "output" VALUES(1,'v@1','state/1/out',5,0);
CREATE TABLE relation (name text primary key, source text not null, columns text not null, key text not null,
    updates integer not null) strict;
INSERT INTO "relation" VALUES('t','shop','[["id","bigint",false]]','["id"]',1);
CREATE TABLE replay (number integer primary key autoincrement, after integer not null, log_commit integer,
    at_us integer not null) strict;
CREATE TABLE set_aside (relation text not null, step integer not null, path text not null, rows integer not null,
    primary key (relation, step)) strict;
INSERT INTO "set_aside" VALUES('t',1,'state/aside',3);
CREATE TABLE settled (relation text not null, log_commit integer not null, place integer not null, replay integer,
    at_us integer not null, primary key (relation, log_commit, place)) strict, without rowid;
INSERT INTO "settled" VALUES('t',7,2,NULL,9);
CREATE TABLE sink (name text primary key, frontier integer not null, error text not null default '',
    updated_us integer not null default 0) strict;
INSERT INTO "sink" VALUES('warehouse',7,'',8);
CREATE TABLE step (number integer primary key, after integer not null, upto integer not null, wide integer not null,
    committed_us integer not null, published_us integer, each integer not null default 0) strict;
INSERT INTO "step" VALUES(1,0,7,1,5,6,0);
CREATE TABLE view (name text not null, version integer not null, sql text not null, fingerprint text not null,
    columns text not null, key text not null, ordering text not null, state text not null,
    reason text not null default '', created_commit integer not null, primary key (name, version)) strict;
INSERT INTO "view" VALUES('v',1,'SELECT id FROM t','f','[["id","bigint",false]]','[]','[]','live','',0);
CREATE INDEX output_by_step on output (step);
DELETE FROM "sqlite_sequence";
COMMIT;
