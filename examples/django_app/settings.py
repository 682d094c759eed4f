"""The settings of the Django project: the database is the one that Onceward uses."""

import os
from urllib.parse import parse_qs, urlsplit

_url = urlsplit(os.environ["ONCEWARD_DATABASE_URL"])
_query = parse_qs(_url.query)

SECRET_KEY = "only for this example"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS: list[str] = []
TEST_RUNNER = "runner.Runner"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path.removeprefix("/"),
        "USER": _url.username or _query.get("user", [""])[0],
        "PASSWORD": _url.password or "",
        "HOST": _url.hostname or _query.get("host", [""])[0],
        "PORT": str(_url.port or _query.get("port", [""])[0]),
    }
}
