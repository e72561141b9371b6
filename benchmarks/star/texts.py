"""What the catalog for STAR's tasks says, in our own words: tools, fields, answers, rules."""

from typing import Final, NamedTuple


class Task(NamedTuple):
    """One API of the data set as a tool of the catalog."""

    description: str
    examples: tuple[str, ...]
    answer: str
    """Template that presents a result; its placeholders are outputs of the API."""
    effect: str = "read"
    required: tuple[str, ...] | None = None
    """Arguments that must be known before a call; the API's own list by default."""


TASKS: Final[dict[str, Task]] = {
    "apartment_schedule": Task(
        "Arranges a visit of an apartment with its housing company.",
        (
            "Could you arrange for me to view a flat",
            "I would like to see an apartment this week",
            "Set up an apartment tour for me",
            "When can I go and look at the flat",
            "I need a viewing at the housing company",
        ),
        "{Message}",
        effect="write",
    ),
    "apartment_search": Task(
        "Finds a flat to rent by number of rooms, floor, price and surroundings.",
        (
            "Help me find a flat to rent",
            "I am moving and look for an apartment with two bedrooms",
            "Which flats are close to a park",
            "Is there something to rent below 1500 dollars",
            "I want a place with a balcony and an elevator",
        ),
        "I found a flat of {Name} with {NumRooms} rooms for {Price} dollars a month.",
    ),
    "bank_balance": Task(
        "Tells how much money is in a bank account after checking its owner.",
        (
            "How much money do I have left",
            "Tell me what is on my account",
            "I want my current balance",
            "Check my bank account please",
            "Do I have enough money for the rent",
        ),
        "The balance of your account at {BankName} is {BankBalance} dollars.",
        required=("BankName", "FullName", "AccountNumber", "PIN"),
    ),
    "bank_fraud_report": Task(
        "Reports suspicious or stolen transactions to the bank's fraud department.",
        (
            "Somebody used my card without asking me",
            "There are payments that I never made",
            "I want to report fraud",
            "My credit card was stolen and used",
            "Someone is stealing from my account",
        ),
        "{Confirmation}",
        effect="write",
        required=("BankName", "FullName", "AccountNumber", "PIN", "FraudReport"),
    ),
    "doctor_followup": Task(
        "Gives the instructions that a doctor left for a patient after a visit.",
        (
            "What did the doctor tell me to take",
            "I forgot how often to take my medicine",
            "Which instructions did I get after my last visit",
            "I have a question about my prescription",
            "How should I treat it, I saw the doctor last week",
        ),
        "The doctor's instructions: {Message}",
    ),
    "doctor_schedule": Task(
        "Makes an appointment with a physician because of symptoms.",
        (
            "I need to see a doctor",
            "Make me an appointment, I feel ill",
            "My back has been hurting for days and I want a consultation",
            "Is a physician free on Thursday afternoon",
            "I have a fever, can someone examine me",
        ),
        "{Message}",
        effect="write",
    ),
    "hotel_book": Task(
        "Reserves a room in a named hotel between two dates.",
        (
            "Reserve a room for me from the 3rd to the 7th",
            "I want to make a hotel reservation",
            "Get me a room at that inn",
            "I need a place to sleep for two nights, please reserve it",
            "Put me down for a double room",
        ),
        "{Message}",
        effect="write",
    ),
    "hotel_search": Task(
        "Recommends hotels by price, rating and part of town.",
        (
            "Which hotels can you recommend",
            "I look for a cheap hotel in the centre",
            "Find a nice hotel with a good rating",
            "Where could I stay in the north of the city",
            "Is there an expensive hotel with room service",
        ),
        "I recommend {Name} in the {Location}: {Cost}, rated {AverageRating} of 5.",
    ),
    "hotel_service_request": Task(
        "Sends a wish of a hotel guest, such as towels or breakfast, to the staff.",
        (
            "Could I have more towels in my room",
            "I am a guest and would like breakfast brought up",
            "Please send someone to clean my room",
            "I want to order something from room service",
            "The air conditioning in my room is broken",
        ),
        "Your request: {RequestStatus}.",
        effect="write",
    ),
    "meeting_schedule": Task(
        "Puts a meeting with a colleague into the calendar.",
        (
            "Set up a meeting with a colleague",
            "I have to talk to someone from my team on Monday",
            "Plan a conference with my boss",
            "Find a slot in the calendar for the two of us",
            "Schedule an hour together to discuss the project",
        ),
        "{Message}",
        effect="write",
    ),
    "party_plan": Task(
        "Organises a party at a venue, with host, guests, food and drinks.",
        (
            "I want to throw a party",
            "Help me organise my birthday celebration",
            "Is the venue free for a party on Saturday",
            "Plan a celebration for forty people",
            "I am hosting an event and need a location",
        ),
        "{Message}",
        effect="write",
    ),
    "party_rsvp": Task(
        "Answers an invitation to somebody's party.",
        (
            "I have been invited to a party and will come",
            "Confirm that I attend the celebration",
            "Tell the host that I am coming",
            "I want to respond to an invitation",
            "Put me on the guest list",
        ),
        "{Message}",
        effect="write",
    ),
    "plane_book": Task(
        "Buys a seat on a flight whose number is known.",
        (
            "Book the flight with that number",
            "I want to buy this plane ticket",
            "Reserve me a seat on the flight",
            "I take that flight, please book it in my name",
            "I have a flight id and want to reserve it",
        ),
        "Your flight: {ReservationStatus}.",
        effect="write",
    ),
    "plane_search": Task(
        "Looks up flights between two cities on a date.",
        (
            "Which flights go from Boston to Denver",
            "I need to fly to the coast on the 12th",
            "Find a plane ticket in business class",
            "What does a flight cost at the end of the month",
            "Are there airlines that fly there in the morning",
        ),
        "{Airline} flies from {DepartureCity} to {ArrivalCity} on the {Date}, flight number {id}, "
        "for {Price} dollars.",
    ),
    "restaurant_book": Task(
        "Reserves a table in a restaurant at an hour.",
        (
            "Reserve a table for four tonight",
            "I want to make a dinner reservation",
            "Book us a table at eight",
            "Is a table free for two people",
            "We would like to eat there, please reserve",
        ),
        "Your table: {ReservationStatus}.",
        effect="write",
    ),
    "restaurant_search": Task(
        "Suggests where to eat by kind of food, cost and part of town.",
        (
            "Where can I get good noodles",
            "Suggest a place to eat",
            "I am hungry and would like something Italian",
            "Is there a cheap burger place in the west",
            "Which restaurants deliver",
        ),
        "{Name} in the {Location} serves {Food}: {Cost}, rated {AverageRating} of 5.",
    ),
    "ride_book": Task(
        "Orders a taxi or a ride from one place to another.",
        (
            "Call me a cab",
            "I need a ride to the airport",
            "Get me a driver that takes me home",
            "Order a taxi from the station to my hotel",
            "Can someone pick me up here",
        ),
        "{DriverName} of {ServiceProvider} is on the way in a {CarModel}; the ride costs {Price} "
        "dollars.",
        effect="write",
    ),
    "ride_change": Task(
        "Modifies a ride that has already been ordered.",
        (
            "I have to modify my trip",
            "Change the destination of my ride",
            "Can the driver take me somewhere else than planned",
            "I want to add a stop to the ride that I ordered",
            "Let my driver come to another address",
        ),
        "{ChangeStatus}",
        effect="write",
    ),
    "ride_status": Task(
        "Tells where an ordered ride is and how long it still takes.",
        (
            "Where is my driver",
            "How long until my cab arrives",
            "Is the car that I ordered on its way",
            "My ride has not come yet",
            "What is the plate of the car that picks me up",
        ),
        "{RideStatus} {RideWait}",
    ),
    "spaceship_access_codes": Task(
        "Checks a crew member's code and unlocks a door of the ship.",
        (
            "Open the door of the engine room",
            "I have to get onto the bridge",
            "Unlock this hatch",
            "My access code for the ship",
            "Let me into the cockpit",
        ),
        "{Message}",
        effect="write",
    ),
    "spaceship_life_support": Task(
        "Helps to repair the life support of the ship by the lock's maker and cable colours.",
        (
            "We are running out of oxygen",
            "The life support does not work any more",
            "How do I repair the air supply of the ship",
            "I have to open the lock at the life support panel",
            "Which cable must I cut to get air again",
        ),
        "{Message}",
    ),
    "trip_directions": Task(
        "Gives directions from one place to another by foot, car or public transport.",
        (
            "How do I get downtown",
            "Give me the way to the museum",
            "What is the fastest way there by bus",
            "I want to walk to the library, how long does it take",
            "Directions to the nearest mall please",
        ),
        "It takes {TripLengthMinutes} minutes: {Instructions}",
        required=("DepartureLocation", "ArrivalLocation", "TravelMode"),
    ),
    "trivia": Task(
        "Asks the next question of a quiz game.",
        (
            "Let us play a quiz",
            "Ask me something tricky",
            "I want to test my knowledge",
            "Next question please",
            "Start the game",
        ),
        "{Message}",
    ),
    "weather": Task(
        "Forecasts the weather of a city for a day.",
        (
            "Will it rain tomorrow",
            "What is the forecast for Sunday",
            "Do I need an umbrella",
            "How warm will it get on Friday",
            "Is it going to snow this week",
        ),
        "{Day} in {City}: {Weather}, about {TemperatureCelsius} degrees.",
        required=("City", "Day"),
    ),
}

OWN_OUTPUTS: Final[dict[str, tuple[str, ...]]] = {
    "hotel_book": ("Message",),
    "trivia": ("Message",),
    "trip_directions": ("TripLengthMinutes", "Instructions"),
}
"""Outputs of tools whose API lists none that can be put into a sentence."""

FIELD_OF: Final[dict[str, str]] = {
    "apartment_schedule.Name": "housing_company",
    "apartment_search.Name": "housing_company",
    "doctor_followup.Name": "doctor",
    "doctor_schedule.Name": "doctor",
    "hotel_book.Name": "hotel",
    "hotel_search.Name": "hotel",
    "hotel_service_request.Name": "hotel",
    "meeting_schedule.Name": "colleague",
    "party_plan.Name": "venue",
    "party_rsvp.Name": "venue",
    "restaurant_book.Name": "restaurant",
    "restaurant_search.Name": "restaurant",
    "AccountNumber": "account_number",
    "Airline": "airline",
    "ApplicationFeePaid": "application_fee_paid",
    "ArrivalCity": "city",
    "ArrivalLocation": "destination",
    "party_rsvp.ArrivalTime": "hour",
    "BankName": "bank",
    "ChangeDescription": "change",
    "City": "city",
    "Class": "travel_class",
    "Code": "code",
    "CodeType": "code_type",
    "ColorOfSecondCable": "second_cable",
    "ColorOfTopCable": "top_cable",
    "Cost": "cost",
    "CustomerName": "customer_name",
    "CustomerRequest": "wish",
    "Date": "date",
    "Day": "day",
    "DepartureCity": "departure_city",
    "DepartureLocation": "starting_point",
    "EndDate": "end_date",
    "EndTimeHour": "end_hour",
    "Food": "food",
    "FraudReport": "incident",
    "FullName": "customer_name",
    "GuestName": "customer_name",
    "HostName": "host_name",
    "Location": "part_of_town",
    "LockManufacturer": "lock_manufacturer",
    "NeedParking": "parking",
    "NumberGuests": "guests",
    "PIN": "pin",
    "PartySize": "guests",
    "PatientName": "customer_name",
    "QuestionNum": "question_number",
    "RenterName": "customer_name",
    "RequestType": "request_type",
    "RoomNumber": "room_number",
    "ServiceProvider": "ride_provider",
    "StartDate": "date",
    "StartTimeHour": "hour",
    "Symptoms": "symptoms",
    "Time": "hour",
    "TravelMode": "travel_mode",
    "UserName": "customer_name",
    "UserRank": "rank",
    "id": "trip_number",
}
"""``api.Input`` or ``Input`` to the field of the catalog that provides it; others are left out."""

FREE: Final[frozenset[str]] = frozenset({"departure_city", "end_date", "end_hour"})
"""Fields that are read from the reply to their own question only, although the API lists values.

Their values are those of another field (`city`, `date`, `hour`), which a message fills first.
"""

PATTERNS: Final[dict[str, str]] = {
    "account_number": "[0-9]{6,12}",
    "pin": "[0-9]{4}",
    "code": "[0-9A-Za-z]*[0-9][0-9A-Za-z]{3,11}",
}

ITEMS: Final[dict[str, tuple[str, str]]] = {
    "account_number": ("Number of a bank account.", "What is the number of your bank account?"),
    "airline": ("An airline.", "Which airline should I look for?"),
    "application_fee_paid": (
        "Whether the application fee for the flat has been paid.",
        "Have you paid the application fee for the apartment, yes or no?",
    ),
    "bank": ("The bank where the account is.", "At which bank is your account?"),
    "change": ("What should be different about a ride.", "What should I change about your ride?"),
    "city": ("A city.", "Which city is it about?"),
    "code": ("A code of the ship's door.", "Which code should I check for the door?"),
    "code_type": ("The kind of a code.", "Is it an access code or a clearance for the door?"),
    "colleague": ("A colleague to meet.", "Which colleague do you want to meet?"),
    "cost": ("A price range.", "Which price range should I look for?"),
    "customer_name": ("The customer's name.", "Which name should I use for this request?"),
    "date": ("A day of the month.", "On which day of the month does it begin?"),
    "day": ("A day of the week.", "On which day of the week should it be?"),
    "departure_city": ("The city where a flight starts.", "From which city do you want to fly?"),
    "destination": ("Where a trip ends.", "Where does your trip end?"),
    "doctor": ("A doctor.", "Which doctor is the appointment with?"),
    "end_date": ("Last day of a stay.", "Until which day of the month do you want the room?"),
    "end_hour": ("When a meeting ends.", "At what time does the meeting end?"),
    "food": ("A kind of food.", "Which kind of food should the restaurant serve?"),
    "guests": ("Number of people.", "For how many people should I make the arrangement?"),
    "host_name": ("Who gives the party.", "What is the name of the party's host?"),
    "hotel": ("A hotel.", "Which hotel is it about?"),
    "hour": ("A time of the day.", "At what time of the day should it be?"),
    "housing_company": ("A housing company.", "Which housing company offers the apartment?"),
    "incident": ("What happened to the account.", "What happened on your bank account?"),
    "lock_manufacturer": ("Who made a lock.", "Who made the lock at the life support?"),
    "parking": ("Whether a parking space is needed.", "Do you need a parking space at the venue?"),
    "part_of_town": ("A part of the city.", "In which part of town should it be?"),
    "pin": ("The PIN of a bank account.", "What is the PIN of your bank account?"),
    "question_number": ("Number of a quiz question.", "Which question of the quiz, 1 to 11?"),
    "rank": ("The rank of a crew member.", "What is your rank on the ship?"),
    "request_type": (
        "Whether something is only checked or made firm.",
        "Should I only check the availability, or book it?",
    ),
    "restaurant": ("A restaurant.", "In which restaurant do you want a table?"),
    "ride_provider": ("A company that drives people.", "Which company should drive you?"),
    "room_number": ("The number of a hotel room.", "What is the number of your hotel room?"),
    "second_cable": (
        "Colour of a panel's second cable.",
        "Which colour has the second cable of the panel?",
    ),
    "starting_point": ("Where a trip starts.", "Where does your trip start?"),
    "symptoms": ("What a patient suffers from.", "Which symptoms should the doctor know about?"),
    "top_cable": ("Colour of a panel's top cable.", "Which colour has the top cable of the panel?"),
    "travel_class": ("A class of plane tickets.", "In which class do you want to fly?"),
    "travel_mode": ("How somebody travels.", "How do you want to travel, by which means?"),
    "trip_number": ("Number of a ride or flight.", "What is the number of your ride or flight?"),
    "venue": ("Where a party takes place.", "At which venue is the party?"),
    "wish": ("What a hotel guest wants.", "What should the hotel staff do for you?"),
}
"""Field to its description and its approved question."""

ANSWERS: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "greeting": (
        "A greeting without any request.",
        ("Hello", "Hi there", "Good morning", "Good evening", "Hey"),
        "Hello! What can I do for you?",
    ),
    "thanks": (
        "Thanks for help that was given.",
        ("Thanks", "Thank you so much", "That was helpful", "Great, thanks", "Perfect"),
        "You are welcome. Is there anything else?",
    ),
    "goodbye": (
        "The end of the conversation, nothing else is wanted.",
        ("Bye", "Goodbye", "See you", "That is everything", "No, nothing else"),
        "Goodbye, and have a nice day!",
    ),
    "abilities": (
        "What this assistant is able to do.",
        ("What can you help me with", "Who are you", "Are you a robot", "What do you know"),
        "I help with trips, tables, hotels, flats, banks, doctors, meetings, parties and weather.",
    ),
}
"""Approved answer to its description, examples and text."""

OUT_OF_SCOPE: Final = (
    "Asks for something private, personal or odd that no assistant of this kind does.",
    (
        "What is your favourite colour",
        "Will you marry me",
        "Tell me a joke",
        "Write my homework",
        "Who should I vote for",
        "Do you believe in ghosts",
    ),
    "I am sorry, that is not something that I can help with.",
)
"""Description, examples and text of the one refusal rule."""

ASKED: Final[dict[str, str]] = {
    "name": "customer_name",
    "user_name": "customer_name",
    "departure": "starting_point",
    "departure_location": "starting_point",
    "arrival_location": "destination",
    "plane_departure_location": "departure_city",
    "plane_departure_city": "departure_city",
    "plane_arrival_city": "city",
    "weather_location": "city",
    "doctor_doctor_name": "doctor",
    "hotel_name": "hotel",
    "hotel_location": "part_of_town",
    "restaurant_location": "part_of_town",
    "restaurant_name": "restaurant",
    "meeting_guest_name": "colleague",
    "apartment_apartment_name": "housing_company",
    "party_host": "host_name",
    "party_parking_needed": "parking",
    "number_of_guests": "guests",
    "size": "guests",
    "restaurant_size": "guests",
    "food_type": "food",
    "price": "cost",
    "time": "hour",
    "start_time": "hour",
    "starting_time": "hour",
    "arrival_time": "hour",
    "end_time": "end_hour",
    "date_from": "date",
    "date_to": "end_date",
    "confirm_booking": "request_type",
    "fraud_details": "incident",
    "booking_number": "trip_number",
    "flight_id": "trip_number",
    "service_request": "wish",
    "colour_top_cable": "top_cable",
    "colour_second_cable": "second_cable",
    "question": "question_number",
}
"""What the human agents' labels call a field, with the task where the name says too little."""
