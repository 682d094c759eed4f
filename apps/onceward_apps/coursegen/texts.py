"""Texts for users in Russian and English, by key. A course's texts are in its language; a response follows
Accept-Language."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

Locale = Literal["ru", "en"]
DEFAULT: Locale = "en"

TEXTS: dict[str, dict[Locale, str]] = {
    "step.1": {"ru": "Инициализация", "en": "Initialisation"},
    "step.2": {"ru": "План курса", "en": "Outline"},
    "step.3": {"ru": "Уроки", "en": "Lessons"},
    "step.4": {"ru": "Упражнения", "en": "Exercises"},
    "step.5": {"ru": "Проверка", "en": "Review"},
    "export.answer": {"ru": "Ответ", "en": "Answer"},
    "export.sources": {"ru": "Источники", "en": "Sources"},
    "initialised": {"ru": "Инициализация завершена", "en": "Initialisation is complete"},
    "initialised.by_worker": {
        "ru": "Инициализация завершена (восстановлено воркером)",
        "en": "Initialisation is complete (recovered by the worker)",
    },
    "outline.in_progress": {"ru": "Составляем план курса", "en": "Writing the outline"},
    "outline.completed": {"ru": "План готов: уроков {lessons}", "en": "The outline is ready: {lessons} lessons"},
    "lessons.in_progress": {"ru": "Пишем урок {number} из {lessons}", "en": "Writing lesson {number} of {lessons}"},
    "lessons.completed": {"ru": "Все уроки написаны", "en": "All lessons are written"},
    "exercises.in_progress": {
        "ru": "Составляем упражнения к уроку {number} из {lessons}",
        "en": "Writing the exercises of lesson {number} of {lessons}",
    },
    "exercises.completed": {"ru": "Упражнения готовы", "en": "The exercises are ready"},
    "review.in_progress": {"ru": "Проверяем курс", "en": "Reviewing the course"},
    "review.completed": {"ru": "Курс готов", "en": "The course is ready"},
    "error.not_accepted": {
        "ru": "Не удалось инициализировать генерацию курса. Попробуйте позже.",
        "en": "The course generation could not be started. Try again later.",
    },
    "error.user_limit": {
        "ru": (
            "Слишком много курсов генерируется одновременно: {current_jobs} из {user_limit}. Дождитесь завершения "
            "одного из них."
        ),
        "en": "You are generating {current_jobs} of {user_limit} courses at the same time. Wait until one is finished.",
    },
    "error.global_limit": {
        "ru": "Сервис сейчас занят. Попробуйте через {retry_after_s} с.",
        "en": "The service is busy. Try again in {retry_after_s} s.",
    },
    "error.monthly_cap": {
        "ru": "Месячный лимит расходов вашего тарифа исчерпан.",
        "en": "The monthly spending cap of your plan is reached.",
    },
    "error.forecast": {
        "ru": "Курс будет стоить около ${expected_usd}, а в этом месяце осталось ${left_usd}.",
        "en": "The course will cost about ${expected_usd}, and ${left_usd} is left this month.",
    },
    "error.not_found": {"ru": "Курс не найден.", "en": "The course was not found."},
    "error.bad_request": {"ru": "Неверный запрос: {detail}", "en": "The request is not valid: {detail}"},
    "error.not_possible": {"ru": "Сейчас это невозможно: {detail}", "en": "This is not possible now: {detail}"},
    "failed.budget_exceeded": {
        "ru": "Бюджет курса исчерпан. Готовые уроки сохранены.",
        "en": "The budget of the course is spent. Finished lessons are kept.",
    },
    "failed.monthly_cap": {
        "ru": "Месячный лимит расходов исчерпан. Готовые уроки сохранены.",
        "en": "The monthly spending cap is reached. Finished lessons are kept.",
    },
    "failed.timeout": {
        "ru": "Генерация заняла слишком много времени. Готовые уроки сохранены.",
        "en": "The generation took too long. Finished lessons are kept.",
    },
    "failed.content_refused": {
        "ru": "Модель отказалась писать этот текст. Измените описание курса.",
        "en": "The model declined to write this text. Change the description of the course.",
    },
    "failed.invalid_output": {
        "ru": "Модель вернула ответ в неверном формате дважды подряд.",
        "en": "The model returned an answer in a wrong format twice in a row.",
    },
    "failed.provider_refused": {
        "ru": "Сервис языковой модели отклонил запрос.",
        "en": "The language model service rejected the request.",
    },
    "failed.provider_unavailable": {
        "ru": "Сервис языковой модели недоступен. Готовые уроки сохранены.",
        "en": "The language model service is not available. Finished lessons are kept.",
    },
    "failed.cancelled": {"ru": "Генерация отменена.", "en": "The generation was cancelled."},
    "failed.worker_lost": {
        "ru": "Генерация прервалась из-за сбоя сервера. Готовые уроки сохранены.",
        "en": "The generation was interrupted by a server failure. Finished lessons are kept.",
    },
    "failed.internal": {
        "ru": "Во время генерации произошла внутренняя ошибка.",
        "en": "An internal error occurred during the generation.",
    },
}
"""The first, the second and `error.not_accepted` are the texts of the workflow that this app replaces, word for
word."""

_PLACE = re.compile(r"{(\w+)}")


def locale_of(language: str | None) -> Locale:
    """Return the locale for a language tag such as `ru-RU`."""
    tag = (language or "").strip().lower().partition("-")[0].partition("_")[0]
    return "ru" if tag == "ru" else DEFAULT


def accepted(header: str | None) -> Locale:
    """Return the locale that an Accept-Language header prefers."""
    choices: list[tuple[float, int, Locale]] = []
    for position, part in enumerate((header or "").split(",")[:20]):
        tag, _, weight = part.partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            quality = 0.0
        known = tag.strip().lower().partition("-")[0]
        if known in get_args(Locale) and quality > 0:
            choices.append((-quality, position, locale_of(known)))
    return min(choices)[2] if choices else DEFAULT


def text(key: str, locale: Locale, **values: Any) -> str:
    """Return the text of a key. A value that is missing shows as `?`; a text must never make an error worse."""
    return _PLACE.sub(lambda found: str(values.get(found[1], "?")), TEXTS[key][locale])
