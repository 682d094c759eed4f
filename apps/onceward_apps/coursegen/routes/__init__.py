"""HTTP: users under `/api/coursegen` and on pages, operators under `/api/v1/coursegen`."""

from onceward_apps.coursegen.app import app
from onceward_apps.coursegen.routes import operators, pages, readers, users

for module in (users, readers, operators, pages):
    app.routes(module.router)
