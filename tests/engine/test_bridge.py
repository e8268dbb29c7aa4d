"""Goal: a name of the JVM is asked over the bridge once, and what may change each time. Method: count what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import REFLECTION_COMMAND_NAME, Py4JError


@pytest.fixture
def asked(spark: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions about names that are sent from now on."""
    client, questions = spark._jvm._gateway_client, []
    send = client.send_command

    def heard(command: str, *others: Any, **options: Any) -> Any:
        if command.startswith(REFLECTION_COMMAND_NAME):
            questions.append(command)
        return send(command, *others, **options)

    monkeypatch.setattr(client, "send_command", heard)
    return questions


@pytest.mark.spark
def test_packages_classes_members_and_objects_are_asked_once(spark: Any, asked: list[str]) -> None:
    for _ in range(3):
        assert spark._jvm.java.time.DayOfWeek.valueOf("MONDAY").getValue() == 1
        assert getattr(spark._jvm, "java.time.Year").of(2028).isLeap()
        assert getattr(getattr(spark._jvm.scala, "None$"), "MODULE$").isEmpty()
    assert len(asked) == len(set(asked))
    assert sum("DayOfWeek" in command for command in asked) == 2  # the class, its method


@pytest.mark.spark
def test_a_static_field_is_asked_each_time_and_an_unknown_name_is_an_error(spark: Any, asked: list[str]) -> None:
    for _ in range(3):
        assert spark._jvm.java.lang.Byte.MAX_VALUE == 127
    assert sum("MAX_VALUE" in command for command in asked) == 3
    for _ in range(2):
        with pytest.raises(Py4JError):
            spark._jvm.java.lang.Byte.NO_SUCH_VALUE  # noqa: B018
