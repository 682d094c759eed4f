"""HTTP: operators under `/api/v1/learning`, visitors and students below it, and pages under `/learn`."""

from onceward_apps.learning.app import app
from onceward_apps.learning.routes import (
    badges,
    certificates,
    coursework,
    operators,
    pages,
    public,
    refunds,
    sessions,
    student_pages,
    students,
)

for module in (
    operators,
    sessions,
    refunds,
    public,
    students,
    student_pages,
    badges,
    certificates,
    coursework,
    pages,
):
    app.routes(module.router)
