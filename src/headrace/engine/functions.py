"""The functions of a project: their files run here, and only where the settings allow code."""

from __future__ import annotations

import hashlib
import sys
import types
from functools import lru_cache

from pyspark import SparkContext

from headrace.model.definition import FunctionFile, Project
from headrace.model.errors import HeadraceError
from headrace.model.function import Function
from headrace.sql.user_functions import UserFunction, UserFunctions, invalid, user_function


def functions_of(project: Project) -> UserFunctions:
    """Those that views may call. The session of this process must be open.

    Raises ``HeadraceError`` (function.invalid) for a file that does not run and for what is no function.
    """
    # A function that Spark has been told of is of that Java process.
    of = id(SparkContext._gateway)
    return _loaded(project.functions, of) if project.settings.code else _withheld(project.functions)


@lru_cache(maxsize=8)
def _loaded(files: tuple[FunctionFile, ...], of: int) -> UserFunctions:
    return UserFunctions.of(function for file in files for function in _of_file(file))


@lru_cache(maxsize=8)
def _withheld(files: tuple[FunctionFile, ...]) -> UserFunctions:
    return UserFunctions(withheld={name.lower(): shown(file) for file in files for name in file.declares})


def shown(file: FunctionFile) -> str:
    """The file as seen from the project's folder."""
    return f"functions/{file.name}.py"


def _of_file(file: FunctionFile) -> list[UserFunction]:
    module = _run(file)
    # Functions of a file may call each other: an edit of one may change what another gives.
    digest = hashlib.blake2b(file.text.encode(), digest_size=16).hexdigest()
    found = []
    for name in file.declares:
        declared = vars(module).get(name)
        if not isinstance(declared, Function):
            raise invalid(name, f"{declared!r} has its name in the end", where=shown(file), next="rename one of them")
        found.append(user_function(name, declared, digest, shown(file)))
    return found


def _run(file: FunctionFile) -> types.ModuleType:
    """The file as a module of its own, under a name that no import finds."""
    module = types.ModuleType(f"headrace_functions_{file.name}")
    module.__file__ = str(file.path or shown(file))
    sys.modules[module.__name__] = module  # dataclasses look for their module there
    try:
        exec(compile(file.text, module.__file__, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise HeadraceError(
            "function.invalid", f"{shown(file)} does not run: {type(error).__name__}: {error}",
            where=f"{shown(file)}:{_line(error, module.__file__)}",
            why="a file of functions stands alone: it can import installed packages, not its neighbours",
            next=f"`python {shown(file)}` says more",
        ) from error  # fmt: skip
    return module


def _line(error: BaseException, path: str) -> int:
    """The last line of the file that the error passed."""
    trace, line = error.__traceback__, 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
