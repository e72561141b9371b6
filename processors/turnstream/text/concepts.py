"""Words that mean nearly the same in customer support, in English and French.

Customers say one thing in many words: *parcel*, *package*, *colis*, *paquet*. A concept is a group
of such words; sharing a concept is weaker evidence than sharing a word, and stronger than sharing
letters. The groups belong to the domain - buying, delivery, returns, payment, accounts, conduct -
and to no catalog: what a concept speaks for is learnt from a catalog's own examples.

A concept begins with its name; its words follow, indented, after the tag of their language. Words
are folded; an underscore joins the words of a phrase. A word may stand in several concepts. Verbs,
nouns and inflected forms with a stem of their own are listed; regular inflection is left to the
stemmer.
"""

from collections.abc import Mapping
from typing import Final

_TABLE: Final = """
parcel
    en parcel package packet shipment box consignment
    fr colis paquet envoi carton pli
order
    en order ordered purchase cmd basket cart
    fr commande commander achat cmd panier
buy
    en buy bought purchase get_hold_of pick_up_a shopping acquire
    fr acheter achete achetee procurer acquerir achat
goods
    en item product article goods thing stuff device appliance machine model unit gadget
    fr article produit appareil truc objet machine modele chose materiel engin
appliance
    en kettle toaster blender lamp coffee maker mixer oven vacuum iron fridge washing
    fr bouilloire grille pain cafetiere mixeur lampe four aspirateur fer frigo lave linge
arrive
    en arrive arrived come came coming turn_up turned_up show_up showed_up land get_here reach
       received receive due expected supposed
    fr arriver arrive arrivee venir venu recevoir recu recue reception attendu prevu cense
       debarquer
send
    en send sent ship shipped dispatch dispatched post mail mailed leave left expedite send_out
    fr envoyer envoi expedier expedition expedie partir parti parte depart poster acheminer
deliver
    en deliver delivered delivery deliveries shipping postage courier carrier driver van dhl ups
       fedex postman mailman
    fr livrer livraison livree livreur transporteur facteur chronopost colissimo poste camion
       coursier mondial
wait
    en wait waiting waited still_nothing impatient worried worry frozen patience long hold_up
       ages forever
    fr attendre attends attente patienter inquiet inquiete impatient fige figee patience
       toujours_rien toujours_pas longtemps tarder traine
late
    en late delayed delay overdue behind_schedule slow stuck held_up
    fr retard retarde tarde traine lent bloque coince immobilise
missing
    en missing lost no_sign no_trace vanished disappeared gone_missing vanish nowhere never
       nothing stolen_from astray misplaced
    fr perdu perdue aucun_signe aucune_trace disparu disparue egare introuvable nulle_part rien
       evapore volatilise envole
home
    en letter_box letterbox doorbell bell knock flat mailbox doorstep door home porch
       neighbour_took house
    fr boite_aux_lettres bal porte domicile maison palier gardien chez_moi concierge sonnette
       sonner
track
    en track tracking trace tracked locate located whereabouts follow
    fr suivre suivi tracer tracage localiser pister tracking
status
    en status update news progress stage eta going_on happening what's_up heard whereabouts
    fr statut etat nouvelles avancement etape en_est des_nouvelles se_passe point_sur fiche
where
    en where whereabouts where's wheres
    fr ou_est ou_en ou_se ou_sont ou_puis
when
    en when what_day what_date which_day
    fr quand quel_jour quelle_date date
cancel
    en cancel cancelled canceled cancellation cancelation void abort annulment revoke call_off
       pull_the_plug scrap want_out back_out backing_out pull_out pulling_out not_go_ahead
       rather_not get_rid drop undo withdraw scratch nix bin axe ditch delete reverse call_back
       off_the_list off_the_system whole_thing_off take_it_off
    fr annuler annulation annule resilier decommander decommande desengager desister supprimer
       retirer stopper abandonner renoncer laisser_tomber laissez_tomber laisse_tomber effacer
       donner_suite ne_pas_donner revenir_en_arriere revenir_sur coupez_court faire_machine_arriere
drop
    en scrap drop undo withdraw scratch nix bin axe ditch delete reverse remove kill forget
    fr supprimer retirer abandonner renoncer effacer enlever rayer defaire oubliez
stop
    en stop halt hold end block prevent intercept pull freeze
    fr arreter stopper bloquer empecher interrompre suspendre intercepter geler
       interrompez bloquez suspendez
unwanted
    en don't_want not_want no_longer do_not_need don't_need unwanted gone_off no_use
       not_interested
    fr veux_plus veut_plus plus_envie plus_interesse mettre_fin besoin_plus plus_besoin
       pas_besoin inutile
mind
    en changed_my_mind changed_mind change_my_mind second_thoughts regret
    fr change_avis changer_avis change_d_avis change_d_idee regrette tout_compte_fait finalement
mistake
    en mistake wrong error accident accidentally twice misclick wrongly oops duplicate
    fr erreur trompe trompee faute betise mauvais mauvaise accident doublon double boulette
       gaffe manip
return
    en return returned send_back sent_back give_back bring_back ship_back hand_back take_back
       sending_back give_it_back send_it_back return_it send_this_back back
    fr retourner retour renvoyer renvoi rendre rends rendu reprendre reprise reexpedier
       rapporter ramener restituer retourne retractation
label
    en label sticker slip docket postage form printout qr
    fr etiquette bordereau bon autocollant formulaire vignette
refund
    en refund refunded reimburse reimbursed money_back reimbursement cash_back credit_back
    fr rembourser remboursement rembourse argent recuperer recredite avoir sous
exchange
    en exchange swap replace replacement substitute
    fr echanger echange remplacer remplacement troquer
unsuitable
    en fit suit like happy disappointed dissatisfied colour color size big small ugly expected
       picture hate noisy
    fr convenir convient plait plaire decu decue couleur taille grand petit moche correspond
       photo bruyant satisfait
price
    en price cost costs fee fees charge rate rates expensive much cheap pricey extra
    fr prix cout coute couter frais tarif cher payant montant combien supplement
free
    en free gratis complimentary no_charge
    fr gratuit gratuite offert offerte gratuitement gratos franco
shipping_fee
    en postage shipping_cost delivery_fee shipping_fee delivery_charge
    fr port fdp frais_de_port
duration
    en long days day weeks week months month year years hours deadline period time fortnight
       limit window
    fr delai jour jours semaine semaines mois an ans annee temps duree limite periode quinzaine
express
    en express fast quick rush next_day urgent quickly sooner soon asap speed
    fr express rapide rapidement vite urgent urgence presse
weekday
    en monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun
    fr lundi mardi mercredi jeudi vendredi samedi dimanche
day_part
    en morning afternoon evening tonight noon midday lunch pm am clock today night tomorrow late
       early
    fr matin midi soir soiree apres_midi dejeuner nuit heure heures aujourd demain tard tot
       minuit
holiday
    en holiday bank_holiday christmas easter weekend weekends new_year vacation
    fr ferie feries noel paques week_end weekend vacances toussaint ascension pont
open
    en open opened opening opens hours schedule timetable
    fr ouvrir ouvert ouverts ouverte ouverture horaire horaires heures
close
    en close closed closing closes shut shuts
    fr fermer ferme fermes fermee fermeture
store
    en store shop branch outlet location showroom boutique premises counter physical brick
    fr magasin boutique enseigne agence point_de_vente rayon surface etablissement echoppe
       physique
visit
    en visit drop_in pop_in come_by drive swing_by stop_by drop_by walk_in head_over pop_round
       in_person
    fr passer venir rendre_visite deplacer faire_un_saut aller sur_place me_rendre
stock
    en stock available availability left shelf sold_out carry in_store have_any any_left
       inventory
    fr stock disponible dispo disponibilite rupture rayon reste restent epuise reserver
collect
    en collect pick_up pickup pick-up grab fetch collection reserve
    fr retirer recuperer chercher retrait emporter
relay
    en pickup_point locker drop_off relay collection_point parcel_shop lockers corner_shop
    fr relais consigne casier casiers tabac point_relais commercant depot
abroad
    en abroad overseas international foreign country countries europe european worldwide border
       customs outside
    fr etranger international pays europe europeen monde frontiere douane hors
country
    en belgium switzerland germany spain italy luxembourg england uk ireland usa states canada
       portugal netherlands holland austria poland morocco algeria tunisia japan australia
       sweden norway denmark greece scotland america mexico brazil china india reunion
       martinique guadeloupe monaco
    fr belgique suisse allemagne espagne italie luxembourg angleterre irlande etats_unis canada
       portugal bas hollande autriche pologne maroc algerie tunisie japon australie suede
       norvege danemark grece royaume uni quebec reunion martinique guadeloupe monaco corse
       andorre
usual
    en usually normally average general typical generally typically policy terms conditions
       rules
    fr habituellement normalement moyenne general generalement habitude conditions regles
       politique modalites
option
    en options methods ways method modes choices kinds types
    fr modes moyens options methodes choix solutions facons formules
pay
    en pay payment paid paying settle checkout bill billing
    fr payer paiement paye paie regler reglement paiements caisse facturer
card
    en card cards visa mastercard amex american_express debit credit cb
    fr carte cartes cb visa mastercard amex bleue bancaire debit
cash
    en cash coins notes money
    fr especes liquide cash monnaie
transfer
    en transfer wire bank iban cheque check cheques checks
    fr virement banque iban cheque cheques rib
wallet
    en paypal apple_pay google_pay klarna wallet bitcoin crypto revolut lydia
    fr paypal apple_pay google_pay klarna bitcoin crypto lydia portefeuille
instalments
    en instalment instalments installments installment split spread monthly pay_later
       several_times three_times financing finance credit loan
    fr plusieurs_fois trois_fois quatre_fois echelonner echelonne etaler mensualite mensualites
       credit financement tempere fractionner 3x 4x mensuel
gift
    en gift voucher present gift_card vouchers birthday
    fr cadeau cadeaux cheque_cadeau carte_cadeau anniversaire
warranty
    en warranty guarantee guaranteed warranties covered cover coverage protection protected
       insured
    fr garantie garanti garantis garanties garantir couvert couverte couvre couverture protege
       prise_en_charge pris_en_charge sav
broken
    en broken broke break breaks breakdown dead died dies faulty defective defect fault failed
       fails stopped_working malfunction leaks leaking leak cracked smoke sparks spark heats
       heat burnt packs_up packed_up gave_up conks_out conked kaput burns_out doesn't_work
       not_working won't_turn won't_switch
    fr casse cassee casser panne pannes mort morte lache defectueux defectueuse defaut fuit
       fuite grille fume brule marche_plus fonctionne_plus chauffe_plus etincelles court_circuit
       allume_plus hs foutu claque abime fissure fendu tombe_en_panne rendu_l_ame crame
repair
    en repair repaired repairs fix fixed mend servicing spare parts technician
    fr reparer reparation reparations repare depanner depannage pieces sav technicien reparateur
discount
    en discount rebate reduction promo promotion off coupon deal cheaper sale bargain percent
    fr remise reduction rabais promo promotion ristourne solde soldes coupon moins_cher pourcent
code
    en code codes voucher coupon token
    fr code codes bon coupon
staff
    en staff employee employees worker personnel colleague_discount insider company works team
    fr employe employes personnel salarie salaries interne travaille collaborateur equipe
secret
    en secret on_the_quiet quietly hidden private confidential exclusive undisclosed not_public
    fr secret cache caches en_douce discretement ni_vu confidentiel reserve prive
reuse
    en reuse again twice several_times multiple bypass circumvent get_around second_account
       unlimited stack unlock
    fr reutiliser encore plusieurs_fois contourner deux_fois illimite cumuler deuxieme_compte
       debloquer resservir
fake
    en fake false forged phony bogus counterfeit falsify forge fabricate doctored dodgy made_up
       fiddled dummy phoney backdate backdated
    fr faux fausse bidon falsifier falsifie contrefait truque trafiquer trafique maquiller
       bricoler magouille antidater antidate fictif inventer
lie
    en lie pretend claim lying say_it tell_them trick deceive scam cheat con fool
    fr mentir pretendre faire_croire semblant dire_que arnaquer tromper tricher escroquer
       declarer
steal
    en stolen steal thief someone's_card found_a_card isn't_mine not_mine
    fr volee vole voler vol pas_la_mienne pas_a_moi
amend
    en change alter edit modify tweak adjust inflate raise higher amend
    fr changer modifier gonfler plus_eleve plus_elevee arranger augmenter ajuster editer
       retoucher
invoice
    en invoice receipt bill proof statement paperwork
    fr facture recu ticket justificatif note factures
insurance
    en insurance insurer tax expenses accountant expense boss employer
    fr assurance assureur impots frais comptable note_de_frais patron employeur
relative
    en husband wife sister brother mother father mum mom dad son daughter cousin ex girlfriend
       boyfriend partner family uncle aunt grandmother parents hubby fiance spouse kid
    fr mari femme soeur frere mere pere maman papa fils fille cousin cousine ex copine copain
       conjoint conjointe famille oncle tante mamie parents compagne compagnon epouse epoux
       petit_ami
acquaintance
    en neighbour neighbor colleague coworker friend boss flatmate roommate tenant mate landlord
       manager buddy
    fr voisin voisine collegue ami amie amis patron colocataire coloc locataire pote
       proprietaire chef
stranger
    en someone_else somebody_else another_customer other_customers other_people another_person
       someone_else's somebody_else's other_person lady guy man woman buyer person people
    fr quelqu_un_d_autre autre_client autres_clients une_autre_personne dame monsieur type
       acheteur acheteuse personne gens individu
customer
    en customer client customers clients shopper user users account_holder
    fr client cliente clients clientele acheteur utilisateur utilisateurs titulaire
contact
    en address phone_number telephone mobile email contact_details name details surname
       whereabouts lives live number identity cell
    fr adresse telephone numero portable mail email coordonnees nom identite habite vit domicile
       prenom
pry
    en history bought ordered spent look_up find_out spy see show tell give check
    fr historique achete commande depense fouiller savoir espionner consulter regarder voir
violence
    en smash burn kill hit beat hurt destroy punch attack bomb bat gun knife fight blow_up
       fire_to set_fire slap wreck break_your shoot trash
    fr casser bruler cramer tuer frapper taper detruire cogner attaquer bombe batte arme couteau
       exploser peter feu gifler demolir defoncer massacrer peter_la
menace
    en regret watch_out watch_your find_you know_where come_for pay_for_this you'll_see
       coming_for get_you coming_over beware
    fr regretter gare vous_allez_voir je_sais_ou retrouver vous_retrouver payer_cher debarquer
       vengeance attention_a
insult
    en idiot idiots stupid moron morons useless scum crooks thieves liars incompetent imbecile
       dumb fools bastards jerk pathetic shit fuck fucking asshole clowns cretins losers hate
       bunch worthless rubbish
    fr idiot idiots imbeciles imbecile debile debiles nul nuls incapables voleurs ordures
       escrocs menteurs connard connards cons con merde foutre abrutis bouffons clowns cretin
       cretins bande minables pourris salaud salauds encule
prompt
    en prompt instructions instruction guidelines directive rules rulebook told instructed
       programmed briefing
    fr prompt instructions consignes consigne directives regles recu programme briefing
system
    en system configuration config database admin administrator server backend back_office
       internal source_code api settings root developer debug
    fr systeme configuration config base_de_donnees admin administrateur serveur interne
       internes back_office code_source api parametres developpeur debogage
credentials
    en password passwords login credentials access token key passcode
    fr mot_de_passe mdp motdepasse identifiant identifiants acces cle connexion
override
    en ignore disregard forget bypass override pretend obey jailbreak skip unlock reveal print
       dump leak repeat verbatim
    fr ignore ignorer oublie contourne contourner obeis affiche revele repete passe_outre
       devoile
thanks
    en thank thanks thx ta cheers appreciated appreciate grateful helpful legend brilliant
       perfect awesome lovely wonderful great
    fr merci remercie remercier sympa reconnaissant aimable parfait super genial nickel top
       impeccable formidable
goodbye
    en bye goodbye see_you take_care have_a_nice good_night cya later
    fr revoir bientot bonne_journee bonne_soiree bye ciao tchao adieu
answered
    en that's_all that's_everything all_set no_more_questions sorted answers_my
    fr c_est_tout plus_de_question repond_a_ma tout_bon
human
    en human person agent advisor adviser representative rep operator someone_real real_person
       supervisor manager somebody
    fr humain humaine personne conseiller conseillere agent operateur responsable quelqu_un
       teleconseiller interlocuteur
talk
    en talk speak call phone chat contact ring discuss voice
    fr parler discuter appeler telephoner joindre contacter echanger rappeler vive_voix
bot
    en bot robot machine automated ai chatbot computer
    fr robot bot machine automatique ia chatbot ordinateur
account
    en account profile sign_in log_in login sign_up register username delete_my
    fr compte profil connecter connexion inscription inscrire pseudo identifiant
personal_change
    en moved moving new_address change_address change_my update_my house_move
    fr demenage demenager nouvelle_adresse changer_adresse changer_mon changer_mon_adresse
job
    en job jobs apprentice apprentices trainee trainees staff_wanted hiring hire recruit
       recruiting vacancy vacancies career internship apply cv resume salary apprenticeship
       work_for_you
    fr emploi job apprenti apprentis stagiaire stagiaires recruter recrutez recrutement embauche
       embauchez embaucher poste stage alternance candidature cv postuler salaire travailler
newsletter
    en newsletter unsubscribe spam emails mailing adverts
    fr newsletter desabonner desinscrire spam pub publicites
loyalty
    en loyalty points membership rewards subscription
    fr fidelite points adhesion abonnement
complaint
    en complain complaint unacceptable terrible awful disgrace appalling shameful
    fr plainte reclamation inadmissible scandaleux honte nul plaindre mecontent
"""


def concepts_of(languages: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """Each concept with its words and phrases in the given languages.

    Args:
        languages: BCP 47 primary language tags; English and French are known.

    Returns:
        Concept to `language:word` or `language:word word`, folded.
    """
    found: dict[str, list[str]] = {}
    members: list[str] = []
    language = ""
    for line in _TABLE.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            members = found.setdefault(line, [])
            continue
        if words[0] in _LANGUAGES:
            language = words.pop(0)
        if language in languages:
            members.extend(f"{language}:{one.replace('_', ' ')}" for one in words)
    return {concept: tuple(wordings) for concept, wordings in found.items()}


_LANGUAGES: Final = frozenset({"en", "fr"})
