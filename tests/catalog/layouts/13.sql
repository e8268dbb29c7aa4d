BEGIN TRANSACTION;
CREATE TABLE aside_row (view text not null, version integer not null, place integer not null, feed text not null,
    content blob not null, shown text not null, weight integer not null, held integer not null, message text not null,
    log_commit integer not null, since integer not null, until integer,
    dropped integer not null, primary key (view, version, log_commit, place, since)) strict;
CREATE TABLE base (feed text primary key, step integer not null, upto integer not null, paths text not null,
    rows integer not null, sums text not null default '[]') strict;
INSERT INTO "base" VALUES('w@1',1,7,'["state/base", "/else/base"]',5,'[]');
CREATE TABLE checkpoint (step integer primary key, runs text not null) strict;
INSERT INTO "checkpoint" VALUES(1,'{"table:t": [["state/1/run", 5, 100]]}');
CREATE TABLE error_row (view text not null, version integer not null, place integer not null, feed text not null,
    together integer not null, content blob not null, shown text not null, weight integer not null,
    held integer not null, message text not null, primary key (view, version, place)) strict;
CREATE TABLE meta (name text primary key, value text not null) strict;
INSERT INTO "meta" VALUES('state layout','1');
INSERT INTO "meta" VALUES('layout','13');
CREATE TABLE output (step integer not null, feed text not null, path text not null, rows integer not null,
    sums text not null, primary key (feed, step, path)) strict;
INSERT INTO "output" VALUES(1,'v@1','state/1/out',5,'');
CREATE TABLE refused (number integer primary key autoincrement, source text not null, relation text not null,
    place text not null, reason text not null, form text not null, payload blob not null, at_us integer not null,
    after integer, position text, log_commit integer, replay integer, gone_us integer) strict;
INSERT INTO "refused" VALUES(1,'shop','t','f:1','bad','json',X'7B7D',9,6,NULL,7,NULL,NULL);
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
CREATE TABLE sums (relation text primary key, total integer not null) strict;
INSERT INTO "sums" VALUES('commits',0);
INSERT INTO "sums" VALUES('aside_row',0);
INSERT INTO "sums" VALUES('base',436324858);
INSERT INTO "sums" VALUES('checkpoint',1394574296);
INSERT INTO "sums" VALUES('error_row',0);
INSERT INTO "sums" VALUES('meta',3394950119);
INSERT INTO "sums" VALUES('output',251483120);
INSERT INTO "sums" VALUES('refused',2220593450);
INSERT INTO "sums" VALUES('relation',1355751199);
INSERT INTO "sums" VALUES('replay',0);
INSERT INTO "sums" VALUES('set_aside',4261255118);
INSERT INTO "sums" VALUES('settled',4098037353);
INSERT INTO "sums" VALUES('sink',1634069588);
INSERT INTO "sums" VALUES('step',2490910233);
INSERT INTO "sums" VALUES('version',875239925);
INSERT INTO "sums" VALUES('view',326476780);
INSERT INTO "sums" VALUES('definitions',2986863390);
CREATE TABLE version (number integer primary key, view text not null, version integer not null, sql text not null,
    columns text not null, key text not null, came_commit integer not null, came_us integer, gone_commit integer,
    gone_us integer) strict;
INSERT INTO "version" VALUES(1,'v',1,'SELECT id FROM t','[["id","bigint",false]]','[]',0,NULL,NULL,NULL);
CREATE TABLE view (name text not null, version integer not null, sql text not null, fingerprint text not null,
    columns text not null, key text not null, ordering text not null, state text not null,
    reason text not null default '', created_commit integer not null, primary key (name, version)) strict;
INSERT INTO "view" VALUES('v',1,'SELECT id FROM t','f','[["id","bigint",false]]','[]','[]','live','',0);
CREATE INDEX output_by_step on output (step);
CREATE TRIGGER aside_row_insert after insert on aside_row begin update sums set total = (total + row_checksum(new."view", new."version", new."place", new."feed", new."content", new."shown", new."weight", new."held", new."message", new."log_commit", new."since", new."until", new."dropped")) & 4294967295 where relation = 'aside_row'; end;
CREATE TRIGGER aside_row_delete after delete on aside_row begin update sums set total = (total - row_checksum(old."view", old."version", old."place", old."feed", old."content", old."shown", old."weight", old."held", old."message", old."log_commit", old."since", old."until", old."dropped")) & 4294967295 where relation = 'aside_row'; end;
CREATE TRIGGER aside_row_update after update on aside_row begin update sums set total = (total + row_checksum(new."view", new."version", new."place", new."feed", new."content", new."shown", new."weight", new."held", new."message", new."log_commit", new."since", new."until", new."dropped") - row_checksum(old."view", old."version", old."place", old."feed", old."content", old."shown", old."weight", old."held", old."message", old."log_commit", old."since", old."until", old."dropped")) & 4294967295 where relation = 'aside_row'; end;
CREATE TRIGGER base_insert after insert on base begin update sums set total = (total + row_checksum(new."feed", new."step", new."upto", new."paths", new."rows", new."sums")) & 4294967295 where relation = 'base'; end;
CREATE TRIGGER base_delete after delete on base begin update sums set total = (total - row_checksum(old."feed", old."step", old."upto", old."paths", old."rows", old."sums")) & 4294967295 where relation = 'base'; end;
CREATE TRIGGER base_update after update on base begin update sums set total = (total + row_checksum(new."feed", new."step", new."upto", new."paths", new."rows", new."sums") - row_checksum(old."feed", old."step", old."upto", old."paths", old."rows", old."sums")) & 4294967295 where relation = 'base'; end;
CREATE TRIGGER checkpoint_insert after insert on checkpoint begin update sums set total = (total + row_checksum(new."step", new."runs")) & 4294967295 where relation = 'checkpoint'; end;
CREATE TRIGGER checkpoint_delete after delete on checkpoint begin update sums set total = (total - row_checksum(old."step", old."runs")) & 4294967295 where relation = 'checkpoint'; end;
CREATE TRIGGER checkpoint_update after update on checkpoint begin update sums set total = (total + row_checksum(new."step", new."runs") - row_checksum(old."step", old."runs")) & 4294967295 where relation = 'checkpoint'; end;
CREATE TRIGGER error_row_insert after insert on error_row begin update sums set total = (total + row_checksum(new."view", new."version", new."place", new."feed", new."together", new."content", new."shown", new."weight", new."held", new."message")) & 4294967295 where relation = 'error_row'; end;
CREATE TRIGGER error_row_delete after delete on error_row begin update sums set total = (total - row_checksum(old."view", old."version", old."place", old."feed", old."together", old."content", old."shown", old."weight", old."held", old."message")) & 4294967295 where relation = 'error_row'; end;
CREATE TRIGGER error_row_update after update on error_row begin update sums set total = (total + row_checksum(new."view", new."version", new."place", new."feed", new."together", new."content", new."shown", new."weight", new."held", new."message") - row_checksum(old."view", old."version", old."place", old."feed", old."together", old."content", old."shown", old."weight", old."held", old."message")) & 4294967295 where relation = 'error_row'; end;
CREATE TRIGGER meta_insert after insert on meta begin update sums set total = (total + row_checksum(new."name", new."value")) & 4294967295 where relation = 'meta'; end;
CREATE TRIGGER meta_delete after delete on meta begin update sums set total = (total - row_checksum(old."name", old."value")) & 4294967295 where relation = 'meta'; end;
CREATE TRIGGER meta_update after update on meta begin update sums set total = (total + row_checksum(new."name", new."value") - row_checksum(old."name", old."value")) & 4294967295 where relation = 'meta'; end;
CREATE TRIGGER output_insert after insert on output begin update sums set total = (total + row_checksum(new."step", new."feed", new."path", new."rows", new."sums")) & 4294967295 where relation = 'output'; end;
CREATE TRIGGER output_delete after delete on output begin update sums set total = (total - row_checksum(old."step", old."feed", old."path", old."rows", old."sums")) & 4294967295 where relation = 'output'; end;
CREATE TRIGGER output_update after update on output begin update sums set total = (total + row_checksum(new."step", new."feed", new."path", new."rows", new."sums") - row_checksum(old."step", old."feed", old."path", old."rows", old."sums")) & 4294967295 where relation = 'output'; end;
CREATE TRIGGER refused_insert after insert on refused begin update sums set total = (total + row_checksum(new."number", new."source", new."relation", new."place", new."reason", new."form", new."payload", new."at_us", new."after", new."position", new."log_commit", new."replay", new."gone_us")) & 4294967295 where relation = 'refused'; end;
CREATE TRIGGER refused_delete after delete on refused begin update sums set total = (total - row_checksum(old."number", old."source", old."relation", old."place", old."reason", old."form", old."payload", old."at_us", old."after", old."position", old."log_commit", old."replay", old."gone_us")) & 4294967295 where relation = 'refused'; end;
CREATE TRIGGER refused_update after update on refused begin update sums set total = (total + row_checksum(new."number", new."source", new."relation", new."place", new."reason", new."form", new."payload", new."at_us", new."after", new."position", new."log_commit", new."replay", new."gone_us") - row_checksum(old."number", old."source", old."relation", old."place", old."reason", old."form", old."payload", old."at_us", old."after", old."position", old."log_commit", old."replay", old."gone_us")) & 4294967295 where relation = 'refused'; end;
CREATE TRIGGER relation_insert after insert on relation begin update sums set total = (total + row_checksum(new."name", new."source", new."columns", new."key", new."updates")) & 4294967295 where relation = 'relation'; end;
CREATE TRIGGER relation_delete after delete on relation begin update sums set total = (total - row_checksum(old."name", old."source", old."columns", old."key", old."updates")) & 4294967295 where relation = 'relation'; end;
CREATE TRIGGER relation_update after update on relation begin update sums set total = (total + row_checksum(new."name", new."source", new."columns", new."key", new."updates") - row_checksum(old."name", old."source", old."columns", old."key", old."updates")) & 4294967295 where relation = 'relation'; end;
CREATE TRIGGER replay_insert after insert on replay begin update sums set total = (total + row_checksum(new."number", new."after", new."log_commit", new."at_us")) & 4294967295 where relation = 'replay'; end;
CREATE TRIGGER replay_delete after delete on replay begin update sums set total = (total - row_checksum(old."number", old."after", old."log_commit", old."at_us")) & 4294967295 where relation = 'replay'; end;
CREATE TRIGGER replay_update after update on replay begin update sums set total = (total + row_checksum(new."number", new."after", new."log_commit", new."at_us") - row_checksum(old."number", old."after", old."log_commit", old."at_us")) & 4294967295 where relation = 'replay'; end;
CREATE TRIGGER set_aside_insert after insert on set_aside begin update sums set total = (total + row_checksum(new."relation", new."step", new."path", new."rows")) & 4294967295 where relation = 'set_aside'; end;
CREATE TRIGGER set_aside_delete after delete on set_aside begin update sums set total = (total - row_checksum(old."relation", old."step", old."path", old."rows")) & 4294967295 where relation = 'set_aside'; end;
CREATE TRIGGER set_aside_update after update on set_aside begin update sums set total = (total + row_checksum(new."relation", new."step", new."path", new."rows") - row_checksum(old."relation", old."step", old."path", old."rows")) & 4294967295 where relation = 'set_aside'; end;
CREATE TRIGGER settled_insert after insert on settled begin update sums set total = (total + row_checksum(new."relation", new."log_commit", new."place", new."replay", new."at_us")) & 4294967295 where relation = 'settled'; end;
CREATE TRIGGER settled_delete after delete on settled begin update sums set total = (total - row_checksum(old."relation", old."log_commit", old."place", old."replay", old."at_us")) & 4294967295 where relation = 'settled'; end;
CREATE TRIGGER settled_update after update on settled begin update sums set total = (total + row_checksum(new."relation", new."log_commit", new."place", new."replay", new."at_us") - row_checksum(old."relation", old."log_commit", old."place", old."replay", old."at_us")) & 4294967295 where relation = 'settled'; end;
CREATE TRIGGER sink_insert after insert on sink begin update sums set total = (total + row_checksum(new."name", new."frontier", new."error", new."updated_us")) & 4294967295 where relation = 'sink'; end;
CREATE TRIGGER sink_delete after delete on sink begin update sums set total = (total - row_checksum(old."name", old."frontier", old."error", old."updated_us")) & 4294967295 where relation = 'sink'; end;
CREATE TRIGGER sink_update after update on sink begin update sums set total = (total + row_checksum(new."name", new."frontier", new."error", new."updated_us") - row_checksum(old."name", old."frontier", old."error", old."updated_us")) & 4294967295 where relation = 'sink'; end;
CREATE TRIGGER step_insert after insert on step begin update sums set total = (total + row_checksum(new."number", new."after", new."upto", new."wide", new."committed_us", new."published_us", new."each")) & 4294967295 where relation = 'step'; end;
CREATE TRIGGER step_delete after delete on step begin update sums set total = (total - row_checksum(old."number", old."after", old."upto", old."wide", old."committed_us", old."published_us", old."each")) & 4294967295 where relation = 'step'; end;
CREATE TRIGGER step_update after update on step begin update sums set total = (total + row_checksum(new."number", new."after", new."upto", new."wide", new."committed_us", new."published_us", new."each") - row_checksum(old."number", old."after", old."upto", old."wide", old."committed_us", old."published_us", old."each")) & 4294967295 where relation = 'step'; end;
CREATE TRIGGER version_insert after insert on version begin update sums set total = (total + row_checksum(new."number", new."view", new."version", new."sql", new."columns", new."key", new."came_commit", new."came_us", new."gone_commit", new."gone_us")) & 4294967295 where relation = 'version'; end;
CREATE TRIGGER version_delete after delete on version begin update sums set total = (total - row_checksum(old."number", old."view", old."version", old."sql", old."columns", old."key", old."came_commit", old."came_us", old."gone_commit", old."gone_us")) & 4294967295 where relation = 'version'; end;
CREATE TRIGGER version_update after update on version begin update sums set total = (total + row_checksum(new."number", new."view", new."version", new."sql", new."columns", new."key", new."came_commit", new."came_us", new."gone_commit", new."gone_us") - row_checksum(old."number", old."view", old."version", old."sql", old."columns", old."key", old."came_commit", old."came_us", old."gone_commit", old."gone_us")) & 4294967295 where relation = 'version'; end;
CREATE TRIGGER view_insert after insert on view begin update sums set total = (total + row_checksum(new."name", new."version", new."sql", new."fingerprint", new."columns", new."key", new."ordering", new."state", new."reason", new."created_commit")) & 4294967295 where relation = 'view'; end;
CREATE TRIGGER view_delete after delete on view begin update sums set total = (total - row_checksum(old."name", old."version", old."sql", old."fingerprint", old."columns", old."key", old."ordering", old."state", old."reason", old."created_commit")) & 4294967295 where relation = 'view'; end;
CREATE TRIGGER view_update after update on view begin update sums set total = (total + row_checksum(new."name", new."version", new."sql", new."fingerprint", new."columns", new."key", new."ordering", new."state", new."reason", new."created_commit") - row_checksum(old."name", old."version", old."sql", old."fingerprint", old."columns", old."key", old."ordering", old."state", old."reason", old."created_commit")) & 4294967295 where relation = 'view'; end;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('refused',1);
COMMIT;
