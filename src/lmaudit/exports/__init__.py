"""Studies in the formats of other tools, one file a format.

Read `material` (what a format is written from), `record` and `table` (the same as JSON objects and as a flat table),
`cells` (texts that tables cannot carry), then any format, `formats` (where they are registered) and `writing`.

    with Study.open("audit.db") as study:
        text = export(material_of(study), "markdown")[""].decode()
"""

from lmaudit.exports.cells import text_of
from lmaudit.exports.formats import FORMATS
from lmaudit.exports.material import Material, Row, material_of
from lmaudit.exports.writing import export, write

__all__ = ["FORMATS", "Material", "Row", "export", "material_of", "text_of", "write"]
