"""One look for everything that people see: the dashboard, the public pages of apps, mails and PDF files."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.look.colours import DARK, LIGHT, rgb
    from onceward.look.languages import Languages
    from onceward.look.organizations import Brand, brand_of
    from onceward.look.public import public_templates

__all__ = ["DARK", "LIGHT", "Brand", "Languages", "brand_of", "public_templates", "rgb"]

__getattr__ = lazy(__name__, __file__)
