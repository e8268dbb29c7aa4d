"""The names of the JVM's packages, classes and static members, asked over the bridge once.

Py4J asks the JVM anew at each dot of ``jvm.org.apache.spark...``, and a name that is a package is looked for, as a
class, in each of Spark's jars: a quarter of the driver's work of planning.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

OBJECT = "MODULE$"  # the one instance of a Scala object


class _Remembering:
    """Keeps what a name stands for; a static field is asked each time, for it may change."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)  # type: ignore[misc]
        if isinstance(found, JavaPackage):
            found.__class__ = _Package
        elif isinstance(found, JavaClass):
            found.__class__ = _Class
        elif not isinstance(found, JavaMember) and name != OBJECT:
            return found
        self.__dict__[name] = found
        return found


class _View(_Remembering, JVMView):  # type: ignore[misc]
    pass


class _Package(_Remembering, JavaPackage):  # type: ignore[misc]
    pass


class _Class(_Remembering, JavaClass):  # type: ignore[misc]
    pass


def remember_names(jvm: Any) -> None:
    """From now on this view of the JVM, and what is reached from it, asks for each name once."""
    if type(jvm) is JVMView:
        jvm.__class__ = _View
