"""`enums`: classification with labels that share beginnings, short enough for the exact posterior over all their tokenisations.

Each question lists its labels; the constraint is :class:`smc.Choice`. Local masking goes from word to word: of "card stolen",
"card lost" and "sent late" it settles on "card" before it has compared the whole labels, and a short label that begins
a longer one ("no", "no, not yet") competes with it through the stop alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.tasks.base import Instance, Task
from experiments.tasks.sets import fingerprint, in_turn
from smc import Choice


@dataclass(frozen=True)
class Kind:
    """A question with its labels, and texts with the right label each; `example` is one more, shown in the prompt."""

    name: str
    question: str
    labels: tuple[str, ...]
    example: tuple[str, str]
    texts: tuple[tuple[str, str], ...]


SYSTEM = "You classify short texts. Answer with one of the labels, exactly as it is written, and nothing else."

KINDS = (
    Kind(
        "sentiment",
        "How does the writer feel about it?",
        (
            "very good",
            "good",
            "neutral",
            "mixed, good",
            "mixed, bad",
            "bad",
            "very bad",
        ),
        ("The parcel was delivered on Tuesday at noon.", "neutral"),
        (
            ("Best concert of my life. I cried, I danced, I would pay double to be there again!", "very good"),
            ("Never again. Cold food, rude staff, and a hair in my soup. A disgrace.", "very bad"),
            ("The lamp is a metre high and comes with two bulbs.", "neutral"),
            ("A good, solid pair of boots. I am happy with them.", "good"),
            ("Lovely hotel, great food, kind people. Only the lift was a bit slow.", "mixed, good"),
            (
                "The screen is nice, but it crashes daily, gets hot, and support never answered me.",
                "mixed, bad",
            ),
            ("The book bored me and I put it away after fifty pages.", "bad"),
        ),
    ),
    Kind(
        "topic",
        "What is the text about?",
        (
            "biology",
            "physics",
            "space",
            "sport: bike",
            "sport: ball",
            "money: bank",
            "money: farm",
        ),
        ("The goalkeeper saved two penalties and the home side won the cup.", "sport: ball"),
        (
            ("Researchers found that octopuses taste with the suckers on their arms.", "biology"),
            ("On the last climb the leader dropped his rivals and took the yellow jersey.", "sport: bike"),
            ("The probe has left the orbit of Mars and is on its way to an asteroid.", "space"),
            ("After a dry spring the wheat harvest will be a fifth smaller, growers say.", "money: farm"),
            ("In the laboratory two beams of light were made to interfere with each other.", "physics"),
            ("The lender will close forty branches and raise the interest on savings.", "money: bank"),
            ("The striker scored twice before half-time and was sent off after it.", "sport: ball"),
        ),
    ),
    Kind(
        "intent",
        "What does the customer of the bank want to report?",
        (
            "card lost",
            "card stolen",
            "card late",
            "card refused",
            "not sent",
            "sent late",
            "sent wrong",
        ),
        ("I ordered a new card three weeks ago and the letter box is still empty.", "card late"),
        (
            ("Somebody took my wallet on the bus, with my card in it!", "card stolen"),
            ("I cannot find my card. I think it slipped out of my pocket on the beach.", "card lost"),
            ("I mistyped the account number and now a stranger has my rent.", "sent wrong"),
            ("At the till the machine said no, although there is money on my account.", "card refused"),
            ("My sister sent me 200 euros last week and they are still not here.", "sent late"),
            (
                "I wanted to send money to my landlord, but the app showed an error and nothing was sent.",
                "not sent",
            ),
            ("You said that my new card would be here by Monday. It is Friday.", "card late"),
        ),
    ),
    Kind(
        "language",
        "Which language is the text written in?",
        (
            "Dutch",
            "English",
            "French",
            "German",
            "Norwegian",
            "Portuguese",
            "Spanish",
            "Spanish, half",
            "French, half",
        ),
        ("Waar is het station? Ik wil graag een kaartje kopen.", "Dutch"),
        (
            ("Wir treffen uns morgen um acht vor dem Kino.", "German"),
            ("El tren sale a las nueve y llega antes de la comida.", "Spanish"),
            ("Vamos a la playa mañana, but first we need to buy some food.", "Spanish, half"),
            ("Il fait beau aujourd'hui, nous allons manger dans le jardin.", "French"),
            ("Jeg vet ikke hvor bussen går fra, men den kommer snart.", "Norwegian"),
            ("Não sei onde deixei as chaves, mas a porta está aberta.", "Portuguese"),
            ("On se voit ce soir at the office, and please bring le gâteau.", "French, half"),
        ),
    ),
    Kind(
        "yes_no",
        "Can the guest have breakfast in the hotel, by this text?",
        ("yes", "yes, paid", "yes, at times", "no", "no, not yet", "not said"),
        ("Breakfast is included in the price and served from seven to ten.", "yes"),
        (
            ("We serve no meals. There is a bakery across the street.", "no"),
            ("A buffet breakfast can be had for 15 euros a person.", "yes, paid"),
            ("Our breakfast room is being built and will open in the spring.", "no, not yet"),
            ("The house has a pool, a sauna and free parking.", "not said"),
            (
                "Breakfast is served free of charge on weekdays; the kitchen is closed at weekends.",
                "yes, at times",
            ),
            ("All guests are welcome to a free breakfast every morning.", "yes"),
            ("Rooms have a desk and fast internet. Pets are allowed.", "not said"),
        ),
    ),
)


@dataclass(frozen=True)
class EnumsTask(Task):
    """One right label for each text."""

    max_tokens: int = 16
    name: str = "enums"
    exact: bool = True

    @property
    def revision(self) -> str:
        return fingerprint([[kind.question, kind.labels, kind.texts] for kind in KINDS])

    def instances(self, limit: int | None = None) -> list[Instance]:
        """The first `limit` texts (35 in all), the kinds of question in turn, as chat messages."""
        return in_turn([_instances(kind) for kind in KINDS])[:limit]

    def score(self, instance: Instance, text: str) -> float:
        """1 for the right label exactly as written, else 0."""
        return float(text == instance.reference)


def _instances(kind: Kind) -> list[Instance]:
    constraint = Choice(kind.labels)
    return [
        Instance(
            id=f"{kind.name}_{number}",
            prompt=_prompt(kind, text),
            constraint=constraint,
            display=f"{text} {kind.question}",
            reference=label,
        )
        for number, (text, label) in enumerate(kind.texts, 1)
    ]


def _prompt(kind: Kind, text: str) -> list[dict[str, str]]:
    shown, label = kind.example
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": _request(kind, shown)},
        {"role": "assistant", "content": label},
        {"role": "user", "content": _request(kind, text)},
    ]


def _request(kind: Kind, text: str) -> str:
    return f"Text: {text}\n{kind.question}\nLabels: {'; '.join(kind.labels)}."
