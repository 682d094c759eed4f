"""Mail through an SMTP relay."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.smtp.simulator import SmtpSimulator

__all__ = ["SmtpSimulator"]

__getattr__ = lazy(__name__, __file__)
