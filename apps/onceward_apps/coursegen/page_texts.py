"""The words on the pages for users, in Russian and English."""

from __future__ import annotations

from onceward_apps.coursegen.texts import Locale

WORDS: dict[str, dict[Locale, str]] = {
    "courses": {"ru": "Мои курсы", "en": "My courses"},
    "new": {"ru": "Новый курс", "en": "New course"},
    "title": {"ru": "Название", "en": "Title"},
    "brief": {"ru": "О чём курс и для кого", "en": "What it is about, and for whom"},
    "sources": {"ru": "Источники", "en": "Sources"},
    "sources_add": {"ru": "Источники (по желанию)", "en": "Sources (optional)"},
    "sources_help": {
        "ru": (
            "Тексты, из которых берутся факты. Первая строка — название, вторая может быть ссылкой, строка --- "
            "отделяет следующий источник."
        ),
        "en": (
            "Texts from which the facts are taken. The first line is the title, the second may be a link; a line with "
            "--- begins the next source."
        ),
    },
    "pictures": {"ru": "Рисунок к каждому уроку", "en": "A drawing for each lesson"},
    "language": {"ru": "Язык", "en": "Language"},
    "lesson_count": {"ru": "Уроков", "en": "Lessons"},
    "create": {"ru": "Создать и сгенерировать", "en": "Create and generate"},
    "none": {"ru": "Здесь появятся ваши курсы.", "en": "Your courses appear here."},
    "sign_in": {
        "ru": "Откройте страницу по ссылке из вашего приложения: она содержит ключ доступа.",
        "en": "Open this page through the link of your application: it contains your access token.",
    },
    "skip": {"ru": "К содержанию", "en": "Skip to the content"},
    "back": {"ru": "← Мои курсы", "en": "← My courses"},
    "steps": {"ru": "Этапы", "en": "Steps"},
    "lessons": {"ru": "Уроки", "en": "Lessons"},
    "writing": {"ru": "Пишется сейчас", "en": "Being written now"},
    "cost": {"ru": "Потрачено", "en": "Cost so far"},
    "of_budget": {"ru": "из", "en": "of"},
    "start": {"ru": "Сгенерировать", "en": "Generate"},
    "cancel": {"ru": "Остановить", "en": "Stop"},
    "forecast": {
        "ru": "Будет стоить около {expected}, не больше {most} (вызовов модели: {calls}).",
        "en": "It will cost about {expected}, and never more than {most} ({calls} calls to the model).",
    },
    "forecast_over": {
        "ru": "Будет стоить около {expected}, а в этом месяце осталось {most}.",
        "en": "It will cost about {expected}, and {most} is left this month.",
    },
    "resume": {"ru": "Продолжить", "en": "Resume"},
    "again": {"ru": "Сгенерировать заново", "en": "Generate again"},
    "again_sure": {
        "ru": "Все уроки будут написаны и оплачены заново. Продолжить?",
        "en": "All lessons are written and paid for again. Continue?",
    },
    "edit": {"ru": "Изменить описание", "en": "Change the description"},
    "save": {"ru": "Сохранить", "en": "Save"},
    "saved": {"ru": "Сохранено.", "en": "Saved."},
    "versions": {"ru": "Версии", "en": "Versions"},
    "version": {"ru": "Версия", "en": "Version"},
    "show_version": {"ru": "Показать эту версию", "en": "Show this version"},
    "shown_version": {"ru": "показывается", "en": "shown"},
    "not_finished": {"ru": "не завершена", "en": "not finished"},
    "kept": {
        "ru": "Новая версия не завершена. Показана прежняя.",
        "en": "The new version was not finished. The one before is shown.",
    },
    "q.slot": {
        "ru": "В очереди: место {place} из {waiting}, ждать примерно {minutes} мин.",
        "en": "In line: place {place} of {waiting}, about {minutes} min to wait.",
    },
    "q.retry": {
        "ru": "Языковая модель сейчас недоступна. Генерация продолжится сама.",
        "en": "The language model is not available now. The generation continues by itself.",
    },
    "q.account": {
        "ru": "Языковая модель отклоняет учётную запись сервиса. Операторы знают об этом; генерация продолжится сама.",
        "en": "The language model refuses the account of this service. The operators know; it continues by itself.",
    },
    "delete": {"ru": "Удалить", "en": "Delete"},
    "delete_sure": {"ru": "Удалить курс навсегда?", "en": "Delete the course for ever?"},
    "markdown": {"ru": "Скачать Markdown", "en": "Download Markdown"},
    "html": {"ru": "Скачать HTML", "en": "Download HTML"},
    "scorm": {"ru": "Скачать SCORM", "en": "Download SCORM"},
    "json": {"ru": "Скачать JSON", "en": "Download JSON"},
    "read": {"ru": "Читать", "en": "Read"},
    "close": {"ru": "Закрыть", "en": "Close"},
    "retry": {"ru": "Переписать", "en": "Write again"},
    "exercises": {"ru": "Упражнения", "en": "Exercises"},
    "answer": {"ru": "Ответ", "en": "Answer"},
    "review": {"ru": "Отзыв", "en": "Review"},
    "strengths": {"ru": "Сильные стороны", "en": "Strengths"},
    "improvements": {"ru": "Что улучшить", "en": "What could be improved"},
    "offline": {
        "ru": "Нет соединения. Показано последнее известное состояние.",
        "en": "No connection. This is the last known state.",
    },
    "failed": {"ru": "Не получилось. Попробуйте ещё раз.", "en": "This did not work. Try again."},
    "missing": {"ru": "Такого курса нет, или он не ваш.", "en": "This course does not exist, or is not yours."},
    "calls": {"ru": "вызовы модели", "en": "model calls"},
    "tokens": {"ru": "токены", "en": "tokens"},
    "s.draft": {"ru": "Черновик", "en": "Draft"},
    "s.queued": {"ru": "В очереди", "en": "Queued"},
    "s.generating": {"ru": "Генерируется", "en": "Generating"},
    "s.completed": {"ru": "Готов", "en": "Completed"},
    "s.failed": {"ru": "Ошибка", "en": "Failed"},
    "s.cancelled": {"ru": "Отменён", "en": "Cancelled"},
    "p.pending": {"ru": "ожидает", "en": "waiting"},
    "p.in_progress": {"ru": "выполняется", "en": "in progress"},
    "p.completed": {"ru": "готово", "en": "done"},
    "p.failed": {"ru": "ошибка", "en": "failed"},
}


def words(locale: Locale) -> dict[str, str]:
    return {key: translations[locale] for key, translations in WORDS.items()}
