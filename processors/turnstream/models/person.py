"""How customers ask for a person, in English and French: a default that every catalog has.

The wish to speak with someone is the same in every business and must never depend on a catalog that
forgot it. These are examples to score against, like a tool's, not sentences to be recognised.
"""

from collections.abc import Mapping
from typing import Final

PERSON_REQUESTS: Final[Mapping[str, tuple[str, ...]]] = {
    "en": (
        "I want to talk to a person",
        "Let me speak to a human agent",
        "Connect me with a representative",
        "Transfer me to an operator",
        "I would rather chat with a real advisor than with a bot",
        "Put me through to customer service",
        "Is there somebody I can call, a phone number of your support team",
        "Are you a robot or a live human being",
        "I want a manager or a supervisor to contact me",
    ),
    "fr": (
        "Je veux parler à une personne",
        "Passez-moi un conseiller humain",
        "Mettez-moi en relation avec un opérateur",
        "Transférez-moi à un agent, une conseillère",
        "Je préfère discuter avec une vraie personne plutôt qu'un robot",
        "Comment joindre le service client par téléphone",
        "Je voudrais échanger de vive voix avec un collaborateur",
        "Je souhaite être rappelé par un responsable",
        "Y a-t-il quelqu'un de réel à qui je peux parler",
    ),
}
"""Primary language tag to example requests."""
