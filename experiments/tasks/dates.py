"""`dates`: an ISO date after a short question. The language has 1,860 strings, so its posterior is known exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from experiments.tasks.base import Instance, Task
from experiments.tasks.sets import fingerprint
from smc import Regex

ISO_DATE = r"202[0-4]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
"""Years 2020 to 2024. It lets 30 February pass, as a regex of this kind in the wild would."""

SYSTEM = "You answer with one date in the form YYYY-MM-DD and nothing else."

# The order mixes the kinds, so that a small `limit` still sees each of them: dates inside documents, dates written
# in other ways, events, and sums with dates.
QUESTIONS: tuple[tuple[str, str, str], ...] = (
    (
        "invoice_issued",
        "Invoice no. 4411, issued on the 14th of November, 2022. Amount due: 310 euros. When was it issued?",
        "2022-11-14",
    ),
    ("written_month", "Write 5 March 2021 as an ISO date.", "2021-03-05"),
    ("paris_olympics", "When was the opening ceremony of the Paris Olympic Games?", "2024-07-26"),
    ("day_before_leap", "What is the day before 2024-03-01?", "2024-02-29"),
    (
        "letter_head",
        "'Dublin, the third of June 2020. Dear Ms Byrne, thank you for your order.' When was this letter written?",
        "2020-06-03",
    ),
    ("american_order", "An American friend wrote 07/04/2023. Which date is that?", "2023-07-04"),
    ("brexit", "On which date did the United Kingdom leave the European Union?", "2020-01-31"),
    ("week_after", "What date is one week after 28 December 2021?", "2022-01-04"),
    (
        "log_line",
        "The server log says: 'Tue 06 Feb 2024 23:59:58 shutdown'. On which date did it shut down?",
        "2024-02-06",
    ),
    ("german_order", "A German form says 19.10.2020. Which date is that?", "2020-10-19"),
    ("perseverance", "When did the rover Perseverance land on Mars?", "2021-02-18"),
    ("last_of_february", "What is the last day of February 2023?", "2023-02-28"),
    (
        "invoice_due",
        "The invoice is dated 1 April 2024 and must be paid within 30 days. What is the last day to pay?",
        "2024-05-01",
    ),
    ("in_words", "Write March the twenty-first, twenty twenty-two, as an ISO date.", "2022-03-21"),
    ("world_cup_final", "On which date was the final of the 2022 World Cup in Qatar played?", "2022-12-18"),
    ("new_years_eve", "Which date is New Year's Eve of 2021?", "2021-12-31"),
    (
        "ticket",
        "Train ticket, valid on Saturday 30 July 2022 only, bought on 2 July 2022. On which day may I travel?",
        "2022-07-30",
    ),
    ("abbreviated", "Write Sep 9, 2024 as an ISO date.", "2024-09-09"),
    ("coronation", "When was Charles III crowned at Westminster Abbey?", "2023-05-06"),
    ("ten_days_before", "What date is ten days before 5 January 2021?", "2020-12-26"),
    (
        "meeting_moved",
        "The meeting planned for Monday, 12 June 2023, is moved to the next day. When is it now?",
        "2023-06-13",
    ),
    ("compact", "Write 20230817 with dashes.", "2023-08-17"),
    ("webb_launch", "When was the James Webb Space Telescope launched?", "2021-12-25"),
    ("christmas", "Which date is Christmas Day of 2020?", "2020-12-25"),
    (
        "lease_end",
        "The lease began on 1 May 2022 and ended exactly one year later. On which date did it end?",
        "2023-05-01",
    ),
    ("ordinal", "Write the 2nd of October 2024 as an ISO date.", "2024-10-02"),
    ("pandemic", "When did the World Health Organization declare COVID-19 a pandemic?", "2020-03-11"),
    ("month_end_sum", "What date is two days after 29 June 2022?", "2022-07-01"),
    ("eclipse", "When did a total solar eclipse cross Texas and New York State in 2024?", "2024-04-08"),
    ("leap_day", "Which date is the leap day of 2020?", "2020-02-29"),
)


@dataclass(frozen=True)
class DatesTask(Task):
    """Short questions with one right date each; the answer must match `ISO_DATE`."""

    max_tokens: int = 16
    name: str = "dates"
    exact: bool = True

    @property
    def revision(self) -> str:
        return fingerprint(QUESTIONS)

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` questions (30 in all), as chat messages."""
        constraint = Regex(ISO_DATE)
        return [
            Instance(
                id=key,
                prompt=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}],
                constraint=constraint,
                display=question,
                reference=answer,
            )
            for key, question, answer in QUESTIONS[:limit]
        ]

    def score(self, instance: Instance, text: str) -> float:
        """1 for the reference date exactly as written, else 0."""
        return float(text == instance.reference)

    def places(self, instance: Instance, text: str) -> list[tuple[int, str]] | None:
        """Year, month and day, each with the dash behind it; None for what is no date."""
        if not re.fullmatch(ISO_DATE, text):
            return None
        return [(0, "year"), (5, "month"), (8, "day")]
