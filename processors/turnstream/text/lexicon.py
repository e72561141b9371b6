"""Words that mean the same in every business: function words, courtesies, negations.

They are data about a language, never about a catalog. English and French are kept here, because
the right lists for short customer sentences are not those of a search engine: *where* and *how
much* carry the request, *need* and *please* do not. In any other language of a catalog frequent
words count for little by their frequency. Every word is written folded (lower case, no accents),
without apostrophes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What is known about the words of one or more languages."""

    function: frozenset[str]
    """Carry no request by themselves; ignored unless nothing else is said."""
    courtesy: frozenset[str]
    """Greetings, thanks and good-byes; count only in a message that says nothing else."""
    negation: frozenset[str]
    """Turn what follows them into its opposite."""
    opening: frozenset[str]
    """First halves of two-part negations: what stands between the halves is negated too."""
    completed: frozenset[str]
    """Stand right before something that is over (*have*, *already*)."""
    short: Mapping[str, str]
    """Abbreviations that customers write, with the word that is meant."""
    clause: frozenset[str]
    """Begin a new clause; nothing before them reaches what follows."""
    aside: frozenset[str]
    """Speak of the conversation itself: which value is meant, in what order, that it was mistyped.
    They surround a value and ask for nothing."""
    denying: frozenset[str] = field(init=False)
    """Every word that may negate another one or say that it is over."""

    def __post_init__(self) -> None:
        """Put the denying words together."""
        object.__setattr__(self, "denying", self.negation | self.opening | self.completed)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> Mapping[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_ENGLISH: Final = Lexicon(
    function=_words("""
        a about all also am an and any anybody anyone anything are as at be because been being
        but by can could d did do does doing dont each either even ever every for from get gets
        getting give go going gonna got had has hasnt have havent having he help her here hers
        hi him his how howd hows i id if ill im in into is isnt it its ive just know let like ll
        lot m made make making many may maybe me might mine moment more most much must my myself
        need needs no nor not now of off ok okay on once one only onto or other our ours out
        over own per possible problem put question quite rather re really s see seems shall she
        should show so some somebody someone something still such sure t tell than that thats
        the their them then there these they thing things think this those though to too try
        trying er hm hmm u uh um
        up ur us ve very wanna want wanted wants was way we well were what whats when
        where wheres which while who whom whos whose why will wish with would yes yet you your
        yours
    """),
    courtesy=_words("""
        afternoon bye cheers cordially day dear evening goodbye greetings hello hey hi kind
        madam morning night please pls plz regards sir sorry thank thanks thankyou thx welcome
    """),
    negation=_words("""
        arent cannot cant couldnt didnt doesnt dont hadnt hasnt havent isnt never not shouldnt
        wasnt without wont wouldnt
    """),
    opening=frozenset(),
    short=_pairs("""
        ordr order ord order pkg package pckg package parcl parcel tmrw tomorrow tmr tomorrow
        tonite tonight wknd weekend asap urgent acct account addr address pwd password pw password
        qty quantity deliv delivery del delivery refnd refund rfnd refund cncl cancel cxl cancel
        b4 before cus because cuz because wen when wat what wht what ppl people msg message
        hrs hours hr hour mins minutes wks weeks wk week yr year yrs years mth month mths months
        gimme give lemme let dunno know til until till until
    """),
    completed=_words("already been had has hasnt have havent having was were ve"),
    clause=_words("although and because but if or so then unless"),
    aside=_words("""
        accident accidentally actual again altogether begin confirm confused confusing copied
        correct correction digit else email error errors figure first former gave idea instead last
        latter mail meaning meant mess message messed minute misread mistake mistaken mistyped mixed
        number numbers obviously old older oops original paste pasted previous prior priority read
        reference remember right said say says scratch second seconds suppose talking thinking third
        told typed typo using wait written wrong wrongly wrote
    """),
)

_FRENCH: Final = Lexicon(
    function=_words("""
        ah bah ben euh hum pff
        a afin ai aide aider aime aimerais aimerait ainsi alors apres as au aucun aucune aura
        aurais aurait aussi autre autres aux avais avait avant avec avez avoir avons ayant bcp
        beaucoup besoin bien bon bonne c ca car ce ceci cela celle celles celui ces cet cette
        ceux chaque chez ci comme comment d da dans de deja des deux dire dis dit dites dois
        doit donc donne donner donnez dont du elle elles en encore enfin ensuite entre es est et
        etaient etais etait etant ete etes etre eu eux faire fais fait faites fasse faudra
        faudrait faut fois font il ils j jai jamais je jusqu juste l la laquelle le lequel les
        leur leurs lors lui m ma mais me meme mes mettez mettre mieux moi moins mon n ne ni non
        nos notre nous on ont ou oui par parce pareil pas pendant peu peut peuvent peux plus
        plutot possible pour pourquoi pourrais pourrait pourrez pourriez pouvez pouvoir pq
        prendre probleme puis puisque qd qu quand que quel quelle quelles quelqu quelque
        quelques quels question qui quoi rien s sa sais sait sans savoir se sera serait ses
        seulement si soit son sont souhaite souhaiterais souhaitez souhaitons sous suis sur t ta
        te tel telle tes toi ton toujours tous tout toute toutes tres trop tu un une va vais vas
        vers veuillez veut veux voici voila voir vois voit vont vos votre voudrais voudrait
        voulais voulez vouloir voulons vous vrai vraiment y
    """),
    courtesy=_words("""
        allo amicalement bjr bonjour bonne bonsoir bsr cordialement coucou excusez journee
        madame mademoiselle merci messieurs mme monsieur mr nuit pardon plait revoir salut
        salutations slt soiree stp svp
    """),
    negation=_words("aucun aucune jamais non ni pas plus point rien sans"),
    opening=_words("n ne"),
    short=_pairs("""
        cmd commande cde commande cmde commande cmmande commande commnde commande liv livraison
        livr livraison rembt remboursement rmbt remboursement rembours remboursement dispo
        disponible mag magasin mdp motdepasse tel telephone num numero nb nombre pb probleme
        rdv rendezvous qqun quelqu qqn quelqu qqch quelque pr pour ds dans tjrs toujours tjs
        toujours tjr toujours jsuis suis chui suis jai ai jveux veux jvoudrais voudrais jpeux peux
        yapa pas ya a vs vous ns nous ke que koi quoi kan quand kand quand pk pourquoi
        pck parce ajd aujourd auj aujourd sem semaine we weekend aprem apres ts tous tt tout
        mnt maintenant bcp beaucoup dc donc avt avant
    """),
    completed=_words("ai aurait avais avait avez avons deja est etait ete ont suis"),
    clause=_words("alors car donc et mais ou parce puis puisque si sinon"),
    aside=_words("""
        abord accident ancien ancienne attendez autant bonne chiffre commencer
        commencons confondu confonds confusion correct correction corrige corriger dernier
        derniere deuxieme dernierement disons ecrit erreur erreurs euh faute finalement frappe
        idee inverse inversee lapsus lire lu mail mauvais mauvaise melange message mince
        minute numero numeros oups oubli pardon parlais parle parler plutot precedent precedente
        premier premiere prenez prends priorite recopie reference rectification rectifie rectifier
        second seconde souviens souvenir tape tenez troisieme trompe trompee tromper vieille vieux
        voulais
    """),
)

_KNOWN: Final[Mapping[str, Lexicon]] = {"en": _ENGLISH, "fr": _FRENCH}


def lexicon_of(languages: tuple[str, ...]) -> Lexicon:
    """The words of several languages together.

    Args:
        languages: BCP 47 primary language tags (`en`, `fr`); one that is not known adds nothing.
    """
    known = [_KNOWN[one] for one in languages if one in _KNOWN]
    return Lexicon(
        function=frozenset().union(*(one.function for one in known)),
        courtesy=frozenset().union(*(one.courtesy for one in known)),
        short={short: word for one in known for short, word in one.short.items()},
        negation=frozenset().union(*(one.negation for one in known)),
        opening=frozenset().union(*(one.opening for one in known)),
        completed=frozenset().union(*(one.completed for one in known)),
        clause=frozenset().union(*(one.clause for one in known)),
        aside=frozenset().union(*(one.aside for one in known)),
    )
