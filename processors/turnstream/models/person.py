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
        "Can someone ring me back on my mobile",
        "Call me please",
        "Stop the automatic replies, I need an actual human being",
        "This is going nowhere, get me somebody who understands",
        "Is anyone real there that can deal with this",
        "Hand me over to your team",
        "I'd like to discuss it on the phone with an employee",
        "Who can I speak with",
        "You don't understand me, let me talk to somebody else",
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
        "Est-ce qu'on peut me rappeler sur mon portable",
        "Appelez-moi s'il vous plaît",
        "Assez des réponses automatiques, je veux un humain",
        "On tourne en rond, donnez-moi quelqu'un qui comprend",
        "Y a-t-il un être humain pour s'occuper de mon cas",
        "Passez la main à votre équipe",
        "J'aimerais en discuter au téléphone avec un employé",
        "À qui puis-je m'adresser",
        "Vous ne comprenez rien, je veux quelqu'un d'autre",
    ),
}
"""Primary language tag to example requests."""
