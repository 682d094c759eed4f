"""All apps of this distribution in one app: `onceward up onceward_apps.all:app`."""

from onceward import Onceward
from onceward_apps import clinic, coursegen, engagement, learning, ticketing

app = Onceward("onceward_apps")
app.include(learning.app)
app.include(ticketing.app)
app.include(engagement.app)
app.include(coursegen.app)
app.include(clinic.app)
