"""All bundled apps with simulated buyers and payment services. `make demo` runs this app."""

from onceward import Onceward
from onceward.feature import WEB
from onceward_apps import all as bundled
from onceward_apps.clinic.demo import ClinicDemo
from onceward_apps.ticketing.demo import TicketingDemo

app = Onceward("demo")
app.include(bundled.app)
app.part("ticketing demo", TicketingDemo, roles=WEB)
app.part("clinic demo", ClinicDemo, roles=WEB)
