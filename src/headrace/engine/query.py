"""One SELECT over tables and views, run by Spark batch at the present frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine.batch import Batch, kept_rows, table_contents
from headrace.engine.functions import functions_of
from headrace.model.errors import HeadraceError
from headrace.sql.admit import admit
from headrace.sql.errors import analysis_error

if TYPE_CHECKING:
    from headrace.engine.pipeline import Pipeline


def query(pipeline: Pipeline, text: str) -> pa.Table:
    """Its rows, all of one commit. Raises what is wrong with it: sql.syntax, sql.refused, sql.unknown_relation, ..."""
    offered = {name: relation for name, (_, relation) in pipeline.catalog.relations().items()}
    names = [*offered, *pipeline.catalog.views()]
    batch = Batch(pipeline.spark, functions=functions_of(pipeline.project))
    admitted = admit(batch.catalyst, text, names)
    ticket, commit, files = pipeline.on_engine(lambda: pipeline.maintainer.pin(list(admitted.relations)))
    try:
        with pipeline.batch_lock, pipeline.log.held():
            for name in admitted.relations:
                columns = offered[name].columns if name in offered else pipeline.catalog.views()[name].schema.columns
                if name in offered and not files[name]:
                    frame = table_contents(batch.spark, pipeline.folder / "log", offered[name], commit)
                else:
                    frame = kept_rows(batch.spark, files[name], columns)
                batch.register(name, frame, columns)
            return batch.run(text)
    except HeadraceError:
        raise
    except Exception as error:
        raise analysis_error(error, "") from error
    finally:
        pipeline.on_engine(lambda: pipeline.maintainer.unpin(ticket))
