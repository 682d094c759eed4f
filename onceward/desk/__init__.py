"""The desk: lists, pages, forms, actions and charts for the people of an app, declared once (docs/desk.md)."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.desk.actions import Act, DeskAction
    from onceward.desk.charts import Chart
    from onceward.desk.columns import Column
    from onceward.desk.desk import Desk, DeskFigure, Role
    from onceward.desk.detail import Detail, Related
    from onceward.desk.errors import WrongDesk
    from onceward.desk.fields import Choices, LongText, Options, Translations, Upload
    from onceward.desk.listing import Listing

__all__ = [
    "Act",
    "Chart",
    "Choices",
    "Column",
    "Desk",
    "DeskAction",
    "DeskFigure",
    "Detail",
    "Listing",
    "LongText",
    "Options",
    "Related",
    "Role",
    "Translations",
    "Upload",
    "WrongDesk",
]

__getattr__ = lazy(__name__, __file__)
