"""Customers of the demo's shop: distinct texts in two languages, in short conversations.

The same number always gives the same turns. A third of the requests lack something (an order
number, a city), so that a question follows; those conversations have a second turn with the reply.
So every turn is the source of one action and nothing is buffered behind a call.
"""

import random
import time
from typing import Final, NamedTuple

from turnstream.core.events import ConversationTurn, SessionClaims

_PRODUCTS: Final = (("kettle", "bouilloire"), ("toaster", "grille-pain"), ("blender", "mixeur"))
_CITIES: Final = ("Paris", "Lyon", "Lille", "Nantes", "Bordeaux")
_NAMES: Final = (
    "Anna", "Bilal", "Chloé", "David", "Emma", "Farid", "Gina", "Hugo", "Inès", "Jonas", "Katia",
    "Léo", "Mila", "Noah", "Olga", "Paul", "Rosa", "Sami", "Théo", "Uma", "Victor", "Wanda",
)  # fmt: skip
_OPENERS: Final = {
    "en": (
        "Hello, this is {name}.",
        "Good morning,",
        "Hi,",
        "{name} here.",
        "Hello again,",
        "Hey,",
    ),
    "fr": ("Bonjour, ici {name}.", "Bonjour,", "Bonsoir,", "C'est {name}.", "Rebonjour,", "Salut,"),
}
_CLOSERS: Final = {
    "en": ("I paid {paid} euros.", "I bought it on day {day} of the month.", "Thank you, {name}.",
           "I am at work until {hour}.", "It is for my flat, number {flat}.", "My wife asks, too."),
    "fr": ("J'ai payé {paid} euros.", "Je l'ai acheté le {day} du mois.", "Merci, {name}.",
           "Je suis au travail jusqu'à {hour} h.", "C'est pour l'appartement {flat}.",
           "Ma femme demande aussi."),
}  # fmt: skip

_COMPLETE: Final = {
    "en": (
        "Where is my order {order}?",
        "Has the package of order {order} been shipped yet?",
        "Do you have a {product} in stock in your {city} store?",
        "How much do you charge for delivery?",
        "Do you deliver to Belgium?",
        "What are your opening hours on Saturday?",
        "Until when can I send an item back?",
        "I want to talk to a person.",
    ),
    "fr": (
        "Où est ma commande {order} ?",
        "Est-ce que le colis de la commande {order} est parti ?",
        "Avez-vous un {produit} en stock au magasin de {city} ?",
        "Combien coûtent les frais de port ?",
        "Est-ce que vous livrez en Suisse ?",
        "Quels sont vos horaires le samedi ?",
        "Combien de jours ai-je pour retourner un article ?",
        "Je voudrais parler à un conseiller.",
    ),
}
_LACKING: Final = {
    "en": (
        ("Where is my parcel?", "It is {order}."),
        ("I want to track my delivery.", "The number is {order}"),
        ("When will my order get here?", "{order}"),
        ("Is the {product} available in one of your stores?", "In {city}, please."),
    ),
    "fr": (
        ("Où est mon colis ?", "C'est la {order}."),
        ("Je voudrais suivre ma livraison.", "Le numéro est {order}"),
        ("Quand ma commande va-t-elle arriver ?", "{order}"),
        ("Avez-vous un {produit} en magasin ?", "À {city}, s'il vous plaît."),
    ),
}


class Load(NamedTuple):
    """Turns in the order in which they are sent."""

    turns: tuple[ConversationTurn, ...]
    conversations: int


def turns(count: int, *, salt: str, at: int | None = None) -> Load:
    """Make `count` turns.

    Args:
        count: How many.
        salt: Part of every id: two loads of one topic must not share conversations.
        at: What they are dated to, ms since 1970; now by default.
    """
    at = time.time_ns() // 1_000_000 if at is None else at
    dice = random.Random(20_000)
    found: list[ConversationTurn] = []
    replies: list[ConversationTurn] = []
    number = 0
    while len(found) + len(replies) < count:
        first, reply = _conversation(f"{salt}-{number}", dice, at)
        number += 1
        found.append(first)
        if reply is not None:
            replies.append(reply)
        # A reply comes some hundred turns after its question.
        while len(replies) > 400:
            found.append(replies.pop(0))
    found += replies
    return Load(tuple(found[:count]), len({turn.conversation_id for turn in found[:count]}))


def _conversation(
    name: str, dice: random.Random, at: int
) -> tuple[ConversationTurn, ConversationTurn | None]:
    locale = dice.choice(("en", "fr"))
    product, produit = dice.choice(_PRODUCTS)
    values = {
        "name": dice.choice(_NAMES),
        "order": f"A-{dice.randrange(1000, 10_000)}",
        "product": product,
        "produit": produit,
        "city": dice.choice(_CITIES),
        "paid": str(dice.randrange(1_000, 100_000) / 100),
        "day": str(dice.randrange(1, 29)),
        "hour": str(dice.randrange(10, 20)),
        "flat": str(dice.randrange(1, 4_000)),
    }
    reply = None
    if dice.random() < 1 / 3:
        request, reply = dice.choice(_LACKING[locale])
    else:
        request = dice.choice(_COMPLETE[locale])
    parts = (dice.choice(_OPENERS[locale]), request, dice.choice(_CLOSERS[locale]))
    text = " ".join(parts).format(**values)
    first = _turn(name, 1, text, locale, at)
    return first, None if reply is None else _turn(name, 2, reply.format(**values), locale, at + 1)


def _turn(name: str, number: int, text: str, locale: str, at: int) -> ConversationTurn:
    return ConversationTurn(
        turn_id=f"{name}-turn-{number}",
        conversation_id=f"conversation-{name}",
        channel_id="web",
        role="customer",
        text=text,
        locale=locale,
        session_claims=SessionClaims(subject_id=f"customer-{name}", permissions=("orders:read",)),
        occurred_at=at,
    )
