"""The bundled apps in one: what `onceward up` runs when it is told nothing else."""

from onceward import Onceward
from onceward_apps import ticketing

app = Onceward("onceward_apps")
app.include(ticketing.app)
