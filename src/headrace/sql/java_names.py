"""What Catalyst's nodes and types are called: classes as their simple names, types as text that parses again."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaMember

from headrace.formats.types.arrow import quote


def class_name(node: Any, ask: str = "getSimpleName") -> str:
    """The simple class name of a plan node or expression, without a Scala object's ``$``."""
    # A static method that takes the node: one call over the bridge, and no class to let go of afterwards.
    named = JavaMember(ask, None, "z:org.apache.commons.lang3.ClassUtils", node._gateway_client)
    return str(named(node)).rstrip("$")


def full_name(node: Any) -> str:
    """The class name with its package."""
    return class_name(node, "getName")


def type_text(expression: Any) -> str:
    """The Spark SQL type text of a resolved expression or attribute, lower case but for field names."""
    return type_name(expression.dataType())


def type_name(data_type: Any) -> str:
    """A type's text, whole (``simpleString`` is cut for wide structs), with fields quoted so that it parses again."""
    text = str(data_type.catalogString())
    if "struct<" not in text:
        return text
    kind = class_name(data_type)
    if kind == "ArrayType":
        return f"array<{type_name(data_type.elementType())}>"
    if kind == "MapType":
        return f"map<{type_name(data_type.keyType())},{type_name(data_type.valueType())}>"
    fields = [data_type.apply(i) for i in range(data_type.length())]
    return f"struct<{','.join(f'{quote(str(f.name()))}:{type_name(f.dataType())}' for f in fields)}>"
