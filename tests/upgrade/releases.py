"""Releases of a made-up owner `shop`: files in a folder."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import Migrations

FIRST = ("0001_orders.sql", "create table orders (id int primary key, label text not null default '')")
EXPAND = ("0002_title.sql", "-- Titles replace labels.\n-- onceward: expand\nalter table orders add column title text")
CONTRACT = ("0003_drop_label.sql", "-- onceward: contract after 0002\nalter table orders drop column label")
LATER = ("0004_colour.sql", "-- onceward: expand\nalter table orders add column colour text")
UNDECLARED = ("0002_title.sql", "alter table orders add column title text")


def release(folder: Path, *files: tuple[str, str]) -> Migrations:
    """Write the files of a release."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, sql in files:
        (folder / name).write_text(sql)
    return Migrations("shop", folder)
