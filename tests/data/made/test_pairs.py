import re
import subprocess
import sys
from collections import Counter
from datetime import date

import pytest

from regard.data.made import dates as made
from regard.data.made.dates import dates, write_date
from regard.data.made.pairs import MADE
from regard.data.made.splits import SPLITS


def written(day, form, language="English"):
    return write_date(day, made.LANGUAGES[language] if language else None, form)


@pytest.mark.parametrize("name", MADE)
def test_a_pure_function_of_split_count_and_seed(name):
    make = MADE[name]
    rows = make("train", 200)
    assert rows == make("train", 200) == make("train", 300)[:200]
    assert len(rows) == 200
    assert rows != make("train", 200, seed=1)
    assert rows[:50] != make("valid", 50)


def test_the_same_in_another_process():
    """String hashing differs between processes; the sets must not."""
    code = """
from regard.data.made.pairs import MADE
for make in MADE.values():
    print(make('test', 20, seed=7))
"""
    command = [sys.executable, "-X", "utf8", "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert out.stdout.splitlines() == [str(make("test", 20, seed=7)) for make in MADE.values()]


def test_known_rows():
    """Written down once: a new Python or platform must make the same sets."""
    assert dates("train", 3) == KNOWN_DATES
    assert MADE["copy"]("train", 2) == KNOWN_COPIES


@pytest.mark.parametrize("name", MADE)
def test_splits_share_nothing(name):
    side = 1 if name == "dates" else 0  # the calendar day; the sequence itself
    seen = {split: {row[side] for seed in (0, 5) for row in MADE[name](split, 1000, seed=seed)} for split in SPLITS}
    assert not seen["train"] & seen["valid"]
    assert not seen["train"] & seen["test"]
    assert not seen["valid"] & seen["test"]


def test_every_calendar_day_is_in_one_split_eighty_ten_ten():
    days = {split: {iso for _, iso in dates(split, len(made._days(split)))} for split in SPLITS}
    assert sum(map(len, days.values())) == 73049  # 200 years with 49 leap days; 1900 has none
    assert len(set().union(*days.values())) == 73049
    assert len(days["train"]) / 73049 == pytest.approx(0.8, abs=0.01)
    assert len(days["valid"]) / 73049 == pytest.approx(0.1, abs=0.01)
    assert len(days["test"]) / 73049 == pytest.approx(0.1, abs=0.01)


def test_days_repeat_only_when_all_have_come():
    everyday = len(made._days("test"))
    rows = dates("test", everyday + 10)
    assert len({iso for _, iso in rows}) == everyday


DAY = date(1979, 5, 3)  # a Thursday


@pytest.mark.parametrize(
    ("form", "language", "text"),
    [
        ("{day} {month} {year}", "English", "3 May 1979"),
        ("the {ordinal} of {month}, {year}", "English", "the 3rd of May, 1979"),
        ("{month} {day} {year}", "English", "May 3 1979"),
        ("{weekday:.3}, {day:02} {short} {year}", "English", "Thu, 03 May 1979"),
        ("{day} {month} '{yy}", "English", "3 May '79"),
        ("{day}. {month} {year}", "German", "3. Mai 1979"),
        ("{weekday}, den {day}. {month} {year}", "German", "Donnerstag, den 3. Mai 1979"),
        ("le {weekday} {ordinal} {month} {year}", "French", "le jeudi 3 mai 1979"),
        ("{day} de {month} de {year}", "Spanish", "3 de mayo de 1979"),
        ("{weekday} {ordinal} {month} {year}", "Italian", "giovedì 3 maggio 1979"),
        ("{weekday} {day} {month} {year}", "Dutch", "donderdag 3 mei 1979"),
        (
            "{weekday}, {ordinal} de {month} de {year}",
            "Portuguese",
            "quinta-feira, 3 de maio de 1979",
        ),
        ("{weekday} den {day} {month} {year}", "Swedish", "torsdag den 3 maj 1979"),
        ("{weekday}, {day} {month} {year}", "Polish", "czwartek, 3 maja 1979"),
        ("{day:02}/{number:02}/{year}", None, "03/05/1979"),
        ("{year}{number:02}{day:02}", None, "19790503"),
        ("{year}年{number}月{day}日", None, "1979年5月3日"),
        ("{day}.{roman}.{year}", None, "3.V.1979"),
    ],
)
def test_forms_written_out(form, language, text):
    assert (made.LANGUAGES[language] if language else None, form) in made.FORMS
    assert written(DAY, form, language) == text


def test_ordinals():
    english = [written(date(2001, 1, day), "{ordinal}") for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    assert " ".join(english) == "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd 30th 31st"
    assert written(date(2001, 1, 1), "{ordinal} {month}", "French") == "1er janvier"
    assert written(date(2001, 1, 2), "{ordinal} {month}", "French") == "2 janvier"


def test_tables_are_whole_and_no_month_name_means_two_months():
    meaning = {}
    for language in made.LANGUAGES.values():
        assert len(language.weekdays.split()) == 7
        for names in (language.months.split(), language.short.split()):
            assert len(names) == 12
            for number, name in enumerate(names):
                assert meaning.setdefault(name.lower().rstrip("."), number) == number


def test_no_text_means_two_days():
    """Every form and letter case of every day of some years: 2001 and 2012 swap day, month and short year."""
    meaning = {}
    for year in (1950, 2001, 2012, 2049):
        for ordinal in range(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal()):
            day = date.fromordinal(ordinal)
            for language, form in made.FORMS:
                text = write_date(day, language, form)
                for variant in (text, text.lower(), text.upper()):
                    assert meaning.setdefault(variant, day) == day, variant


def test_short_years_mean_1950_to_2049():
    rows = [(text, iso) for text, iso in dates("train", 20000) if "'" in text]
    assert len(rows) > 100
    for text, iso in rows:
        short = int(re.search(r"'(\d\d)$", text)[1])
        assert int(iso[:4]) == (1900 if short >= 50 else 2000) + short


def test_dates_are_varied_yet_learnable():
    assert len(made.FORMS) == len(set(made.FORMS)) >= 40
    rows = dates("train", 20000)
    alphabet = set("".join(text for text, _ in rows))
    assert 60 < len(alphabet) <= 100
    assert set("".join(text for text, _ in dates("test", 7000))) <= alphabet
    assert max(len(text) for text, _ in rows) <= 40
    assert all(date.fromisoformat(iso).isoformat() == iso for _, iso in rows)
    assert {int(iso[:4]) for _, iso in rows} == set(range(1900, 2100))
    assert sum(text.isupper() for text, _ in rows) > 1000


@pytest.mark.parametrize(
    ("name", "change"),
    [("copy", lambda x: x), ("reverse", lambda x: x[::-1]), ("sort", sorted)],
)
def test_sequences(name, change):
    rows = MADE[name]("train", 2000)
    for source, target in rows:
        letters = source.split(" ")
        assert all(len(letter) == 1 and "a" <= letter <= "z" for letter in letters)
        assert target.split(" ") == list(change(letters))
    lengths = Counter(len(source.split()) for source, _ in rows)
    assert set(lengths) == set(range(3, 13))
    assert min(lengths.values()) > 140  # about 200 each


@pytest.mark.parametrize("distance", [2, 10, 200])
def test_recall(distance):
    for split in SPLITS:
        rows = MADE["recall"](split, 300, distance=distance)
        for source, target in rows:
            letter, *between, question = source.split(" ")
            assert (letter, question) == (target, "?")
            assert len(between) == distance - 1
            assert all(one in "0123456789" for one in between)
        if distance > 2:
            assert {target for _, target in rows} == set("abcdefghijklmnopqrstuvwxyz")
    for wrong in (1, 0, -3, 2.5):
        with pytest.raises(ValueError, match=rf"distance must be a whole number of at least 2, got {wrong}"):
            MADE["recall"]("train", 5, distance=wrong)


@pytest.mark.parametrize("name", MADE)
def test_errors(name):
    with pytest.raises(ValueError, match="one of train, valid, test, got 'dev'"):
        MADE[name]("dev", 5)
    for count in (0, -3, 2.5):
        with pytest.raises(ValueError, match=rf"at least 1, got {count}"):
            MADE[name]("train", count)


KNOWN_DATES = [("1966年10月13日", "1966-10-13"), ("30Mar2047", "2047-03-30"), ("July 25 1911", "1911-07-25")]
KNOWN_COPIES = [("v x j", "v x j"), ("s y o c p f y m p", "s y o c p f y m p")]
