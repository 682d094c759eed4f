"""The shop as a module, for commands."""

from onceward import Onceward
from tests.rehearsal.kiosk import make_app

app = make_app()
without_mail = make_app("no mail")
wrong_amount = make_app("amount")
one_more_row = make_app("one more row")
failing = make_app("exception")
without_handler = Onceward("kiosk")
