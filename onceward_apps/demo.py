"""The bundled apps with a simulated world around them: what `make demo` runs."""

from onceward import Onceward
from onceward.feature import WEB
from onceward_apps import all as bundled
from onceward_apps.ticketing.demo import TicketingDemo

app = Onceward("demo")
app.include(bundled.app)
app.part("ticketing demo", TicketingDemo, roles=WEB)
