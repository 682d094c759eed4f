"""Read the lines of a bank statement: CSV with id, amount, currency and text, as every bank can export it."""

from __future__ import annotations

import csv
import io
from decimal import Decimal, InvalidOperation

from onceward.money import exponent
from onceward_apps.ticketing.box_office import StatementLine
from onceward_apps.ticketing.errors import Invalid


def read_lines(text: str) -> list[StatementLine]:
    """Read lines of a bank statement: id, amount, currency and text, separated by semicolons, commas or tabs."""
    head = text.strip().partition("\n")[0]
    delimiter = next((each for each in ";\t" if each in head), ",")
    lines: list[StatementLine] = []
    for number, row in enumerate(csv.reader(io.StringIO(text.strip()), delimiter=delimiter), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and cells[0].lower() == "id"):
            continue
        if len(cells) < 3 or not cells[0]:
            raise Invalid(f"line {number}: give id, amount, currency and text, separated by {delimiter!r}")
        currency = cells[2].upper()
        if len(currency) != 3 or not currency.isalpha():
            raise Invalid(f"line {number}: {cells[2][:20]!r} is not a currency such as EUR")
        cents = _cents(cells[1], currency, number)
        if cents > 0:  # what the organizer paid out is none of ours
            memo = " ".join(cells[3:])[:500]
            lines.append(StatementLine(line=cells[0][:60], amount_cents=cents, currency=currency, memo=memo))
    return lines


def _cents(text: str, currency: str, number: int) -> int:
    """Read an amount as banks write it: 1234.56, 1.234,56, 1'234.56 or, in a currency without decimals, 1,000."""
    plain, digits = text.replace("'", "").replace(" ", ""), exponent(currency)
    last = max(plain.rfind(","), plain.rfind("."))
    if last >= 0 and len(plain) - last - 1 <= digits:
        plain = plain[:last].replace(",", "").replace(".", "") + "." + plain[last + 1 :]
    else:
        plain = plain.replace(",", "").replace(".", "")
    try:
        amount = Decimal(plain).scaleb(digits)
        if amount != int(amount):
            raise InvalidOperation
    except (InvalidOperation, ValueError, OverflowError):
        raise Invalid(f"line {number}: {text[:40]!r} is not an amount in {currency}") from None
    return int(amount)
