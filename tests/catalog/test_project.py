"""A project folder is read exactly as written; whatever is wrong with it is named with file, line and a way out.

Method: folders written by hand into a temporary directory; expected values are literals.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog import project
from headrace.model.definition import (
    ApiSettings,
    AuditRetention,
    FunctionFile,
    Retention,
    Settings,
    SinkDefinition,
    SourceDefinition,
    ViewDefinition,
)
from headrace.model.errors import HeadraceError

GOOD = {
    "headrace.yaml": "name: shop\nmaster: local[4]\nstep_rows: 500\ncheckpoint_seconds: 5\nansi: false\n",
    "sources/shop.yaml": "type: postgres\nhost: db\npassword: env:SHOP_PASSWORD\nschemas: [public]\n",
    "views/revenue.sql": "SELECT 1 AS one\n",
    "views/Clicks.sql": "-- ä comment\nSELECT 2 AS two;\n",
    "sinks/all.yaml": "type: duckdb\npath: out.duckdb\n",
    "sinks/some.yaml": "type: postgres\nviews: revenue\nkeys:\n  revenue: [one]\ndsn: env:DSN\n",
}


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def refused(folder: Path, **files: str | bytes) -> HeadraceError:
    write(folder, {**GOOD, **files})
    with pytest.raises(HeadraceError) as caught:
        project.read(folder)
    return caught.value


def test_everything_written_is_read(tmp_path: Path) -> None:
    read = project.read(write(tmp_path, GOOD))
    assert read.path == tmp_path.resolve()
    assert read.settings == Settings(name="shop", master="local[4]", step_rows=500, checkpoint_seconds=5.0, ansi=False)
    options = {"host": "db", "password": "env:SHOP_PASSWORD", "schemas": ["public"]}
    assert read.sources == (SourceDefinition("shop", "postgres", options, tmp_path / "sources/shop.yaml"),)
    assert read.views == (
        ViewDefinition("Clicks", "-- ä comment\nSELECT 2 AS two;\n", tmp_path / "views/Clicks.sql"),
        ViewDefinition("revenue", "SELECT 1 AS one\n", tmp_path / "views/revenue.sql"),
    )
    assert read.sinks == (
        SinkDefinition("all", "duckdb", None, {}, {"path": "out.duckdb"}, tmp_path / "sinks/all.yaml"),
        SinkDefinition(
            "some", "postgres", ("revenue",), {"revenue": ("one",)}, {"dsn": "env:DSN"}, tmp_path / "sinks/some.yaml"
        ),
    )


def test_functions_are_known_by_name_without_running_their_file(tmp_path: Path) -> None:
    text = "import sys\nsys.exit('it ran')\n\n@function\ndef a(x: int) -> int: return x\n\ndef b(): pass\n"
    text += "@headrace.function(returns='int')\n@other\ndef c(x): return x\n"
    read = project.read(write(tmp_path, {**GOOD, "functions/some.py": text, "functions/__init__.py": ""}))
    assert read.functions == (FunctionFile("some", text, ("a", "c"), tmp_path / "functions/some.py"),)
    assert read.settings.code is False


def test_a_secret_stays_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    assert "hunter2" not in repr(project.read(write(tmp_path, GOOD)))


def test_an_empty_headrace_yaml_is_a_project_named_after_its_folder(tmp_path: Path) -> None:
    read = project.read(write(tmp_path / "corner shop", {"headrace.yaml": "# nothing\n"}))
    assert (read.settings, read.sources, read.views, read.sinks) == (Settings(name="corner shop"), (), (), ())


def test_a_key_that_yaml_takes_for_true_is_a_word(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "sinks/hook.yaml": "type: webhook\non: enter\ninner: {off: no}\n"})
    options = {sink.name: sink.options for sink in project.read(tmp_path).sinks}
    assert options["hook"] == {"on": "enter", "inner": {"off": False}}


def test_what_is_no_definition_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "views/README.md": "x", "views/.hidden.sql": "x", "views/old.sql.dropped": "x"})
    assert [view.name for view in project.read(tmp_path).views] == ["Clicks", "revenue"]


def test_the_nearest_folder_upward_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"headrace.yaml": "", "a/headrace.yaml": "", "a/b/c/x": ""})
    assert project.find(tmp_path / "a/b/c") == tmp_path / "a"
    assert project.find(tmp_path / "a") == tmp_path / "a"
    assert project.find(tmp_path) == tmp_path


def test_outside_a_project_the_way_to_make_one_is_named(tmp_path: Path) -> None:
    for look in (project.find, project.at, project.read):
        with pytest.raises(HeadraceError) as caught:
            look(tmp_path)
        assert caught.value.code == "project.not_found"
        assert "headrace init" in caught.value.next
    with pytest.raises(HeadraceError, match="no such folder"):
        project.at(tmp_path / "nowhere")


MAIN, SOURCE, SINK = "headrace.yaml", "sources/shop.yaml", "sinks/x.yaml"


@pytest.mark.parametrize(
    ("name", "text", "code", "where", "said"),
    [
        (MAIN, "name: x\n\nmastr: y\n", "config.unknown_key", "headrace.yaml:3", "did you mean 'master'?"),
        (MAIN, "zzz: 1\n", "config.unknown_key", "headrace.yaml:1", "known keys: ansi, "),
        (MAIN, "step_rows: many\n", "config.invalid", "headrace.yaml:1", "a whole number, not 'many'"),
        (MAIN, "step_rows: true\n", "config.invalid", "headrace.yaml:1", "a whole number, not True"),
        (MAIN, "step_rows: 0\n", "config.invalid", "headrace.yaml:1", "greater than 0"),
        (MAIN, "checkpoint_seconds: .nan\n", "config.invalid", "headrace.yaml:1", "greater than 0"),
        (MAIN, "ansi: 1\n", "config.invalid", "headrace.yaml:1", "true or false"),
        (MAIN, "name: ''\n", "config.invalid", "headrace.yaml:1", "empty"),
        (MAIN, "driver_memory: 1 GB\n", "config.invalid", "headrace.yaml:1", "driver_memory: 1g"),
        (MAIN, "driver_memory: 400m\n", "config.invalid", "headrace.yaml:1", "less than 500m"),
        (MAIN, "master: here\n", "config.invalid", "headrace.yaml:1", "not a Spark master"),
        (MAIN, "a: 1\nname: [\n", "config.invalid", "headrace.yaml:3:1", "is not YAML"),
        (MAIN, "name:\n\tx: 1\n", "config.invalid", "headrace.yaml:2:1", "not tabs"),
        (MAIN, "name: a\nansi: true\nname: b\n", "config.invalid", "headrace.yaml:3", "written twice"),
        (MAIN, "- name\n", "config.invalid", "headrace.yaml:1", "key: value"),
        (MAIN, "true: 1\n", "config.invalid", "headrace.yaml:1", 'write "true":'),
        (MAIN, "on: 1\n", "config.unknown_key", "headrace.yaml:1", "known keys: ansi, "),
        (MAIN, "on: 1\non: 2\n", "config.invalid", "headrace.yaml:2", "written twice"),
        (MAIN, "name: !!python/object/apply:os.getcwd []\n", "config.invalid", "headrace.yaml:1:7", "not YAML"),
        (MAIN, "name: a\0\n", "config.invalid", "headrace.yaml", "is not YAML"),
        (MAIN, "name: " + "[" * 30_000, "config.invalid", "headrace.yaml", "is not YAML"),
        (MAIN, "name: " + "[" * 300 + "]" * 300, "config.invalid", "headrace.yaml:1", "levels"),
        (MAIN, b"name: caf\xe9\n", "config.invalid", "headrace.yaml, byte 9", "UTF-8"),
        (MAIN, "# " + "x" * 1_000_001, "config.invalid", MAIN, "larger than"),
        (SOURCE, "host: db\n", "config.invalid", SOURCE, "'type' is missing"),
        (SOURCE, "host: db\ntpye: http\n", "config.unknown_key", "sources/shop.yaml:2", "did you mean 'type'?"),
        (SOURCE, "type: 5\n", "config.invalid", "sources/shop.yaml:1", "name of a connector"),
        (SOURCE, "type: http\ntables:\n  a: {x: 1, x: 2}\n", "config.invalid", "sources/shop.yaml:3", "twice"),
        ("sources/b.yml", "type: http\n", "config.invalid", "sources/b.yml", "rename it to b.yaml"),
        ("sources/my-db.yaml", "type: http\n", "config.invalid", "sources/my-db.yaml", "my_db.yaml"),
        ("views/2nd.sql", "SELECT 1", "config.invalid", "views/2nd.sql", "_2nd.sql"),
        ("views/x.SQL", "SELECT 1", "config.invalid", "views/x.SQL", "rename it to x.sql"),
        ("views/clicks.sql", "SELECT 1", "config.invalid", "views/clicks.sql", "views/Clicks.sql have the same name"),
        ("views/empty.sql", "-- to do\n/* later\n */ ;\n", "config.invalid", "views/empty.sql", "has no SQL"),
        ("views/open.sql", "/*a" * 300_000, "config.invalid", "views/open.sql", "has no SQL"),
        ("views/sub/deep.sql", "SELECT 1", "config.invalid", "views/sub", "move them to views/"),
        ("functions/f.py", "def f(): pass\n", "config.invalid", "functions/f.py", "declares no function"),
        ("functions/f.py", "@function\ndef f(:\n", "config.invalid", "functions/f.py:2", "is not Python"),
        ("functions/f.py", "@function\ndef f(): pass\n" * 2, "config.invalid", "functions/f.py:4", "in line 2 too"),
        (SINK, "type: d\nviews: [revenue, revenu]\n", "view.unknown", "sinks/x.yaml:2", "did you mean 'revenue'?"),
        (SINK, "type: d\nviews: [no]\n", "config.invalid", "sinks/x.yaml:2", "a list of names"),
        (SINK, "type: d\nviews: []\n", "config.invalid", "sinks/x.yaml:2", "names no view"),
        (SINK, "type: d\nviews: [revenue, revenue]\n", "config.invalid", "sinks/x.yaml:2", "twice"),
        (SINK, "type: d\nkeys: [a]\n", "config.invalid", "sinks/x.yaml:2", "must be a mapping"),
        (SINK, "type: d\nkeys:\n  clicks: [a]\n", "view.unknown", "sinks/x.yaml:3", "did you mean 'Clicks'?"),
        (SINK, "type: d\nkeys:\n  revenue: {a: 1}\n", "config.invalid", "sinks/x.yaml:3", "a list of names"),
        (SINK, "type: d\nviews: Clicks\nkeys:\n  revenue: a\n", "config.invalid", "sinks/x.yaml:4", "leaves out"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    tmp_path: Path, name: str, text: str | bytes, code: str, where: str, said: str
) -> None:
    error = refused(tmp_path, **{name: text})
    assert (error.code, error.where) == (code, where)
    assert said in str(error)


def test_two_files_with_a_function_of_one_name_are_refused(tmp_path: Path) -> None:
    text = "@function\ndef {}(): pass\n"
    error = refused(tmp_path, **{"functions/a.py": text.format("f"), "functions/b.py": text.format("F")})
    assert (error.code, error.where) == ("config.invalid", "functions/b.py:2")
    assert "functions/a.py:2" in error.what


def test_a_time_zone_is_checked_where_the_machine_knows_them(tmp_path: Path) -> None:
    error = refused(tmp_path, **{"headrace.yaml": "time_zone: Europe/Berlim\n"})
    assert error.next == "did you mean 'Europe/Berlin'?"
    write(tmp_path, {"headrace.yaml": "time_zone: Europe/Berlin\n"})
    assert project.read(tmp_path).settings.time_zone == "Europe/Berlin"


def test_aliases_cannot_blow_a_file_up(tmp_path: Path) -> None:
    lines = ["type: http", "a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefghijk", "bcdefghijkl", strict=True)
    ]
    read = project.read(write(tmp_path, {**GOOD, "sources/shop.yaml": "\n".join(lines)}))
    assert read.sources[0].type == "http"  # nine to the twelfth elements, none of them copied


def test_an_empty_key_declares_a_multiset(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "sinks/some.yaml": "type: postgres\nkeys:\n  revenue: []\n"})
    assert project.read(tmp_path).sinks[1].keys == {"revenue": ()}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("keep: 7 days", Retention(keep_s=604_800.0)),
        ("keep: 90 min\n  keep_size: 10 GiB", Retention(keep_s=5400.0, keep_bytes=10 << 30)),
        ("keep_size: 1.5MB\n  wait_for: []", Retention(keep_bytes=1_500_000, wait_for=())),
        ("wait_for: [pg]", Retention(wait_for=("pg",))),
    ],
)
def test_how_long_the_log_is_kept(tmp_path: Path, written: str, expected: Retention) -> None:
    folder = write(tmp_path, {"sinks/pg.yaml": "type: duckdb\npath: x\n", MAIN: f"retention:\n  {written}\n"})
    assert project.read(folder).settings.retention == expected


@pytest.mark.parametrize(
    ("written", "line", "text"),
    [
        ("keep: 7", 2, "'keep' is 7"),
        ("keep: 0 days", 2, "'keep' is '0 days'"),
        ("keep_size: 3 days", 2, "'keep_size' is '3 days'"),
        ("keep: 1 day\n  kep_size: 1 GiB", 3, "unknown key 'kep_size'"),
        ("wait_for: pg", 2, "'wait_for' must be a list of sinks"),
        ("wait_for: [pq]", 2, "names the sink 'pq', which is not there"),
    ],
)
def test_what_cannot_say_how_long_the_log_is_kept(tmp_path: Path, written: str, line: int, text: str) -> None:
    folder = write(tmp_path, {"sinks/pg.yaml": "type: duckdb\npath: x\n", MAIN: f"retention:\n  {written}\n"})
    with pytest.raises(HeadraceError) as caught:
        project.read(folder)
    assert (caught.value.where, text in str(caught.value)) == (f"headrace.yaml:{line}", True)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{}", ApiSettings()),
        ("{port: 8080, host: 0.0.0.0, memory: 2 GiB}", ApiSettings(port=8080, host="0.0.0.0", memory="2 GiB")),
        ("{auth: none, host: '::1'}", ApiSettings(auth="none", host="::1")),
        ("{enabled: false}", ApiSettings(enabled=False)),
    ],
)
def test_where_the_api_is_served(tmp_path: Path, written: str, expected: ApiSettings) -> None:
    assert project.read(write(tmp_path, {MAIN: f"api: {written}\n"})).settings.api == expected


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("7070", "'api' must be a mapping"),
        ("{prot: 7070}", "unknown key 'prot'"),
        ("{port: 70700}", "'port' is 70700"),
        ("{port: true}", "'port' is True"),
        ("{auth: toke}", "did you mean 'token'?"),
        ("{auth: none, host: 10.0.0.7}", "for the loopback alone"),
        ("{memory: much}", "'memory' is 'much'"),
        ("{enabled: 1}", "'enabled' is 1"),
    ],
)
def test_what_cannot_say_where_the_api_is_served(tmp_path: Path, written: str, text: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        project.read(write(tmp_path, {MAIN: f"api: {written}\n"}))
    assert caught.value.where == "headrace.yaml:1" and text in str(caught.value)


def test_how_long_the_audit_log_is_kept_is_written_as_of_the_log(tmp_path: Path) -> None:
    folder = write(tmp_path, {MAIN: "audit: {keep: 400 days, keep_size: 1 GiB}\n"})
    assert project.read(folder).settings.audit == AuditRetention(400 * 86_400, 1 << 30)
    for written, said in (("{keep: 7}", "'keep' is 7"), ("{kept: 7 days}", "kept"), ("7 days", "must be a mapping")):
        folder = write(tmp_path, {MAIN: f"audit: {written}\n"})
        with pytest.raises(HeadraceError, match=said):
            project.read(folder)
