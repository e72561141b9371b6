"""A small catalog that is right in every respect, for tests that break one thing of it."""

from pathlib import Path
from textwrap import dedent

DEMO = Path(__file__).parents[3] / "processors/turnstream/demo/catalog.yaml"

SMALL = dedent(
    """\
    default_locale: en
    entry_agent: desk
    default_queue: people
    agents:
      desk: {description: Answers readers of the library.}
    channels:
      web: {type: webchat}
    queues:
      people: {description: Librarians., text: {en: A librarian will answer.}}
    rules:
      missing_permission: {description: No right., text: {en: Please sign in.}}
    tools:
      find_loan:
        description: Finds the due date of a borrowed book.
        examples: [When is my book due]
        effect: read
        required_permissions: [loans]
        input_schema:
          type: object
          required: [book]
          properties:
            book: {type: string}
            format: {enum: [print, audio]}
        result_schema:
          type: object
          required: [due]
          properties:
            due: {type: string}
            notes: {type: array}
        arguments:
          book: {provenance: [record, message]}
          format: {provenance: [message]}
        errors:
          unknown_book: {description: No such loan., answer: no_loan}
        answer: due_date
        binding:
          kind: http
          method: GET
          url: "{LIBRARY_URL}/loans/{book}"
          headers: {Authorization: "env:LIBRARY_TOKEN"}
          subject_header: X-Reader
    fields:
      book:
        description: The number of a book.
        pattern: "B-[0-9]{3}"
        question: {en: "Which number has the book whose due date you want to know?"}
      format:
        description: The format of a book.
        type: choice
        choices: {print: {label: {en: Print}}, audio: {label: {en: Audio}}}
        question: {en: "In which format did you borrow the book?"}
    answers:
      due_date:
        description: The due date of a book.
        of_tool: find_loan
        text: {en: "{book} is due on {due}."}
      no_loan:
        description: The reader has not borrowed the book.
        of_tool: find_loan
        text: {en: "You have not borrowed {book}."}
      hours:
        description: When the library is open.
        examples: [When do you open]
        text: {en: "Every day, {{nearly}} always."}
    """
)


def with_change(old: str, new: str) -> str:
    """The small catalog with one piece of text replaced.

    Raises:
        ValueError: the piece is not there exactly once.
    """
    if SMALL.count(old) != 1:
        raise ValueError(f"{old!r} occurs {SMALL.count(old)} times")
    return SMALL.replace(old, new)
