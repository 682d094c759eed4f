"""All bundled apps with simulated people and services. `make demo` runs this app."""

from onceward import Onceward
from onceward.context import Context
from onceward.feature import WEB
from onceward_apps import all as bundled
from onceward_apps.learning.demo import LearningDemo
from onceward_apps.learning.demo_pages import router as learning_pages
from onceward_apps.ticketing.demo import TicketingDemo


def learning_demo(context: Context) -> LearningDemo:
    """One Stripe account serves both apps, as it may in reality."""
    return LearningDemo(context, stripe=context.part(TicketingDemo).stripe)


app = Onceward("demo")
app.include(bundled.app)
app.routes(learning_pages)
app.part("ticketing demo", TicketingDemo, roles=WEB)
app.part("learning demo", learning_demo, roles=WEB)
