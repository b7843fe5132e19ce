"""A generated set of dates: as people write them in nine languages, and as ISO 8601 has them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache

from regard.data.made.splits import generator_of, split_of


def _english(day: int) -> str:
    ending = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


@dataclass(frozen=True)
class Language:
    months: str
    short: str
    weekdays: str  # from Monday
    forms: tuple[str, ...]
    ordinal: Callable[[int], str] = str


LANGUAGES = {
    "English": Language(
        "January February March April May June July August September October November December",
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        (
            "{day} {month} {year}",
            "{day} {short} {year}",
            "{day:02} {month} {year}",
            "{day} {month}, {year}",
            "{ordinal} {month} {year}",
            "{ordinal} of {month} {year}",
            "the {ordinal} of {month}, {year}",
            "{weekday}, {day} {month} {year}",
            "{weekday} {day} {month} {year}",
            "{weekday} the {ordinal} of {month} {year}",
            "{weekday:.3}, {day:02} {short} {year}",
            "{day}-{short}-{year}",
            "{day:02}{short}{year}",
            "{day} {month} '{yy}",
            "{month} {day}, {year}",
            "{month} {day} {year}",
            "{month} {ordinal}, {year}",
            "{month} {ordinal} {year}",
            "{short} {day}, {year}",
            "{short} {day:02} {year}",
            "{short} {day} '{yy}",
            "{weekday}, {month} {day}, {year}",
            "{weekday:.3} {short} {day} {year}",
            "{year} {month} {day}",
        ),
        _english,
    ),
    "German": Language(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.",
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        (
            "{day}. {month} {year}",
            "{day:02}. {month} {year}",
            "{day}. {short} {year}",
            "am {day}. {month} {year}",
            "{weekday}, {day}. {month} {year}",
            "{weekday}, den {day}. {month} {year}",
            "{weekday:.2}, {day}. {short} {year}",
            "{day}. {month} '{yy}",
        ),
    ),
    "French": Language(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        (
            "{ordinal} {month} {year}",
            "{ordinal} {short} {year}",
            "le {ordinal} {month} {year}",
            "{weekday} {ordinal} {month} {year}",
            "le {weekday} {ordinal} {month} {year}",
            "{ordinal} {month} '{yy}",
        ),
        lambda day: "1er" if day == 1 else str(day),
    ),
    "Spanish": Language(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sept oct nov dic",
        "lunes martes miércoles jueves viernes sábado domingo",
        (
            "{day} de {month} de {year}",
            "{day} de {month} del {year}",
            "el {day} de {month} de {year}",
            "{day} {short} {year}",
            "{weekday}, {day} de {month} de {year}",
            "{weekday} {day} de {month} de {year}",
        ),
    ),
    "Italian": Language(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        ("{ordinal} {month} {year}", "{day} {short} {year}", "{weekday} {ordinal} {month} {year}"),
        lambda day: "1º" if day == 1 else str(day),
    ),
    "Dutch": Language(
        "januari februari maart april mei juni juli augustus september oktober november december",
        "jan. feb. mrt. apr. mei juni juli aug. sep. okt. nov. dec.",
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        (
            "{day} {month} {year}",
            "{day} {short} {year}",
            "op {day} {month} {year}",
            "{weekday} {day} {month} {year}",
        ),
    ),
    "Portuguese": Language(
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        (
            "{ordinal} de {month} de {year}",
            "em {ordinal} de {month} de {year}",
            "{day} {short} {year}",
            "{day}/{short}/{year}",
            "{weekday}, {ordinal} de {month} de {year}",
        ),
        lambda day: "1º" if day == 1 else str(day),
    ),
    "Swedish": Language(
        "januari februari mars april maj juni juli augusti september oktober november december",
        "jan. feb. mars apr. maj juni juli aug. sept. okt. nov. dec.",
        "måndag tisdag onsdag torsdag fredag lördag söndag",
        (
            "{day} {month} {year}",
            "den {day} {month} {year}",
            "{day} {short} {year}",
            "{weekday} {day} {month} {year}",
            "{weekday} den {day} {month} {year}",
        ),
    ),
    "Polish": Language(
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
        "sty lut mar kwi maj cze lip sie wrz paź lis gru",
        "poniedziałek wtorek środa czwartek piątek sobota niedziela",
        (
            "{day} {month} {year}",
            "{day} {month} {year} r.",
            "{day} {short} {year}",
            "{weekday}, {day} {month} {year}",
        ),
    ),
}

ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
NUMERIC = (
    "{year}-{number:02}-{day:02}",
    "{year}/{number:02}/{day:02}",
    "{year}.{number:02}.{day:02}",
    "{year}{number:02}{day:02}",
    "{year}年{number}月{day}日",
    "{year}年{number:02}月{day:02}日",
    "{day:02}/{number:02}/{year}",
    "{day}/{number}/{year}",
    "{day:02}.{number:02}.{year}",
    "{day}.{number}.{year}",
    "{day}. {number}. {year}",
    "{day:02}-{number:02}-{year}",
    "{day}-{number}-{year}",
    "{day:02}/{number:02}/'{yy}",
    "{day}.{number}.'{yy}",
    "{day}.{roman}.{year}",
    "{day} {roman} {year}",
    "{day}-{roman}-{year}",
)

# Every way to write a date: the language (None: only numbers) and the form.
FORMS: tuple[tuple[Language | None, str], ...] = (
    *((language, form) for language in LANGUAGES.values() for form in language.forms),
    *((None, form) for form in NUMERIC),
)

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
SHORT_YEARS = range(1950, 2050)


def write_date(day: date, language: Language | None, form: str) -> str:
    number = day.month
    fields: dict[str, object] = {"day": day.day, "number": number, "year": day.year}
    fields |= {"roman": ROMAN[number - 1], "yy": f"{day.year % 100:02}"}
    if language:
        fields["month"] = language.months.split()[number - 1]
        fields["short"] = language.short.split()[number - 1]
        fields["weekday"] = language.weekdays.split()[day.weekday()]
        fields["ordinal"] = language.ordinal(day.day)
    return form.format_map(fields)


def _any_way(day: date, generator: random.Random) -> str:
    """The date in one of the forms; one in five is all upper case or all lower case."""
    language, form = generator.choice(FORMS)
    while "{yy}" in form and day.year not in SHORT_YEARS:
        language, form = generator.choice(FORMS)
    text = write_date(day, language, form)
    case = generator.random()
    return text.upper() if case < 0.1 else text.lower() if case < 0.2 else text


@cache
def _days(split: str) -> tuple[date, ...]:
    every = (date.fromordinal(i) for i in range(FIRST.toordinal(), LAST.toordinal() + 1))
    return tuple(day for day in every if split_of(day.isoformat()) == split)


def dates(split: str, count: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """A date of 1900 to 2099 as people write it in nine languages -> ISO, "3 May 1979" -> "1979-05-03".

    In numeric forms, four digits first mean year, month, day (also 19790503); otherwise the day comes first, with
    . - or /, so 03/05/1979 is the third of May. The month comes first only as a name. A year of two digits follows
    an apostrophe and means 1950 to 2049. Weekdays are correct. Every day of the split comes once before any comes
    twice."""
    return list(_pairs(split, count, seed))


@lru_cache(maxsize=8)
def _pairs(split: str, count: int, seed: int) -> tuple[tuple[str, str], ...]:
    """Kept for the next call, since all days are put into an order, however few are taken."""
    generator = generator_of("dates", split, count, seed)
    days = list(_days(split))
    pairs: list[tuple[str, str]] = []
    while len(pairs) < count:
        generator.shuffle(days)
        pairs += [(_any_way(day, generator), day.isoformat()) for day in days[: count - len(pairs)]]
    return tuple(pairs)
